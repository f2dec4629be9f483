import { list } from '../device.ts'
import { example } from '../rule.ts'
import type { Warning } from './warning.ts'

/** Keys of cloud-config that hold passwords and private keys, and private keys as they are. Bounded, so that no text costs more than its length. */
const secretText =
  /^[ \t-]{0,64}(?:password|passwd|plain_text_passwd|hashed_passwd|chpasswd|ssh_keys)[ \t]{0,8}:|PRIVATE KEY-----/m

export const inlineSecret: Warning = {
  id: 'secret-inline',
  description: 'A password or private key in the spec, which whoever may read VMs can read, and every node.',
  about: ['passwd', 'volume'],
  *check({ spec, domain }) {
    const readers = 'all who may read VMs, and every node, can read this secret'
    for (const [index, { passwd }] of list(domain, 'graphics').entries()) {
      if (passwd !== undefined) yield `devices.graphics[${index}].passwd: ${readers}`
    }
    for (const [index, { cloudInit }] of (spec.volumes ?? []).entries()) {
      if (secretText.test(cloudInit?.userData ?? '')) yield `volumes[${index}].cloudInit.userData: ${readers}`
    }
  },
  example: example(
    { devices: { graphics: [{ type: 'vnc', passwd: 'secret' }] } },
    { devices: { graphics: [{ type: 'vnc' }] } },
  ),
}
