import { eachDevice } from './device.ts'
import { missingCapability, required, unsupported } from './finding.ts'
import { example } from './rule.ts'

export const crypto = eachDevice('cryptos')(
  'crypto-backend',
  'A crypto device must have a backend that QEMU on the node supports.',
  ({ backend }, at, { capabilities: { words } }) => {
    const model = backend?.model
    if (model === undefined) return [required(`${at}.backend.model`, 'must be set', 'e.g. builtin')]
    const known = words['crypto.backendModel']
    if (!known || known.includes(model)) return []
    const message = `QEMU on this node has no such backend; it has ${known.join(', ')}`
    return [missingCapability(`crypto backend ${model}`, unsupported(`${at}.backend.model`, model, message, 'builtin'))]
  },
  example(
    { devices: { cryptos: [{ model: 'virtio', type: 'qemu' }] } },
    { devices: { cryptos: [{ model: 'virtio', type: 'qemu', backend: { model: 'builtin' } }] } },
  ),
)
