import { testRule } from '../../test/rule-table.ts'

testRule('rng-backend', [
  {
    refused: { devices: { rngs: [{ model: 'virtio' }] } },
    causes: ['spec.domain.devices.rngs[0].backend.model: Required value: must be set; e.g. builtin'],
    accepted: { devices: { rngs: [{ model: 'virtio', backend: { model: 'builtin' } }] } },
  },
  {
    refused: { devices: { rngs: [{ backend: { model: 'builtin' } }] } },
    causes: ['spec.domain.devices.rngs[0].model: Required value: must be set; e.g. virtio'],
    accepted: { devices: { rngs: [{ model: 'virtio', backend: { model: 'builtin' } }] } },
  },
])
