import { list } from '../device.ts'
import { example } from '../rule.ts'
import type { Warning } from './warning.ts'

/**
 * Keys of cloud-config for passwords and private keys, and private keys themselves. Bounded, so that matching takes
 * linear time.
 */
const secretText =
  /^[ \t-]{0,64}(?:password|passwd|plain_text_passwd|hashed_passwd|chpasswd|ssh_keys)[ \t]{0,8}:|PRIVATE KEY-----/m

export const inlineSecret: Warning = {
  id: 'secret-inline',
  description:
    'The spec contains a password or private key, which every node and everyone with read access to VMs can read.',
  about: ['passwd', 'volume'],
  *check({ spec, domain }) {
    const readers = 'every node and everyone with read access to VMs can read this secret'
    for (const [index, { passwd }] of list(domain, 'graphics').entries()) {
      if (passwd !== undefined) yield `devices.graphics[${index}].passwd: ${readers}`
    }
    for (const [index, { cloudInit }] of (spec.volumes ?? []).entries()) {
      if (secretText.test(cloudInit?.userData ?? ''))
        yield `volumes[${index}].cloudInit.userData: ${readers}; use userDataSecretRef`
    }
  },
  example: example(
    { devices: { graphics: [{ type: 'vnc', passwd: 'secret' }] } },
    { devices: { graphics: [{ type: 'vnc' }] } },
  ),
}
