import { eachDevice } from './device.ts'
import { lacking, required, unsupported } from './finding.ts'
import { example } from './rule.ts'

export const crypto = eachDevice('cryptos')(
  'crypto-backend',
  'A device that encrypts has a backend, which QEMU has.',
  ({ backend }, at, { capabilities: { words } }) => {
    const model = backend?.model
    if (model === undefined) return [required(`${at}.backend.model`, 'must be given', 'e.g. builtin')]
    const known = words['crypto.backendModel']
    if (!known || known.includes(model)) return []
    const message = `is not in the QEMU here; there are: ${known.join(', ')}`
    return [lacking(`crypto backend ${model}`, unsupported(`${at}.backend.model`, model, message, 'builtin'))]
  },
  example(
    { devices: { cryptos: [{ model: 'virtio', type: 'qemu' }] } },
    { devices: { cryptos: [{ model: 'virtio', type: 'qemu', backend: { model: 'builtin' } }] } },
  ),
)
