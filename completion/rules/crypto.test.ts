import type { Domain } from '../../api/domain/domain.ts'
import { testRule } from '../../test/rule-table.ts'
import { bundledCapabilities } from '../capabilities.ts'
import type { DeviceOf } from './device.ts'

const crypto = (backend?: DeviceOf<'cryptos'>['backend']): Domain => ({
  devices: { cryptos: [{ model: 'virtio', type: 'qemu', ...(backend === undefined ? {} : { backend }) }] },
})

const capabilities = {
  ...bundledCapabilities,
  words: { ...bundledCapabilities.words, 'crypto.backendModel': ['builtin'] },
}

testRule('crypto-backend', [
  {
    refused: crypto(),
    causes: ['spec.domain.devices.cryptos[0].backend.model: Required value: must be set; e.g. builtin'],
    accepted: crypto({ model: 'builtin' }),
  },
  {
    refused: crypto({ model: 'lkcf' }),
    causes: [
      'spec.domain.devices.cryptos[0].backend.model: Unsupported value: "lkcf": QEMU on this node has no such backend; it has builtin; builtin [node without crypto backend lkcf]',
    ],
    accepted: crypto({ model: 'builtin' }),
    capabilities,
  },
  {
    refused: crypto(),
    causes: ['spec.domain.devices.cryptos[0].backend.model: Required value: must be set; e.g. builtin'],
    accepted: crypto({ model: 'lkcf' }),
    capabilities: { ...bundledCapabilities, words: {} },
  },
])
