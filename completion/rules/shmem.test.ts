import type { Domain } from '../../api/domain/domain.ts'
import { testRule, testSilent } from '../../test/rule-table.ts'
import type { DeviceOf } from './device.ts'

type Shmem = DeviceOf<'shmems'>

const shmem = (one: Shmem): Domain => ({ devices: { shmems: [one] } })

const plain = (more: Shmem = {}): Domain => shmem({ name: 's', model: { type: 'ivshmem-plain' }, ...more })

const doorbell = (more: Shmem = {}): Domain =>
  shmem({ name: 's', model: { type: 'ivshmem-doorbell' }, server: { path: '/s' }, ...more })

testRule('shmem', [
  {
    refused: plain({ server: { path: '/s' }, size: { unit: 'M', value: 4 } }),
    causes: ['spec.domain.devices.shmems[0].server: Forbidden: must not be set for ivshmem-plain'],
    accepted: plain({ size: { unit: 'M', value: 4 } }),
  },
  {
    refused: shmem({ model: { type: 'ivshmem-plain' } }),
    causes: ['spec.domain.devices.shmems[0].name: Required value: must be set'],
    accepted: plain(),
  },
  {
    refused: shmem({ name: 's' }),
    causes: [
      'spec.domain.devices.shmems[0].model.type: Required value: must be set: QEMU no longer supports the default, ivshmem; e.g. ivshmem-plain',
    ],
    accepted: plain(),
  },
  {
    refused: plain({ model: { type: 'ivshmem' } }),
    causes: [
      'spec.domain.devices.shmems[0].model.type: Unsupported value: "ivshmem": is no longer supported by QEMU; did you mean "ivshmem-plain"?',
    ],
    accepted: plain(),
  },
  {
    refused: plain({ server: { path: '/s' } }),
    causes: ['spec.domain.devices.shmems[0].server: Forbidden: must not be set for ivshmem-plain'],
    accepted: doorbell(),
  },
  {
    refused: shmem({ name: 's', model: { type: 'ivshmem-doorbell' } }),
    causes: ['spec.domain.devices.shmems[0].server: Required value: must be set for ivshmem-doorbell'],
    accepted: doorbell(),
  },
  {
    refused: plain({ msi: { vectors: 2 } }),
    causes: [
      'spec.domain.devices.shmems[0].msi: Forbidden: can only be set with a server, which delivers the interrupts',
    ],
    accepted: doorbell({ msi: { vectors: 2 } }),
  },
  {
    refused: doorbell({ size: { unit: 'M', value: 4 } }),
    causes: [
      'spec.domain.devices.shmems[0].size: Forbidden: must not be set for ivshmem-doorbell, where the server defines it',
    ],
    accepted: plain({ size: { unit: 'M', value: 4 } }),
  },
  {
    refused: plain({ size: { unit: 'M', value: 3 } }),
    causes: ['spec.domain.devices.shmems[0].size.value: Invalid value: 3: must be a power of two and at least 1 MiB'],
    accepted: plain({ size: { unit: 'M', value: 4 } }),
  },
  {
    refused: plain({ size: { unit: 'K', value: 512 } }),
    causes: ['spec.domain.devices.shmems[0].size.value: Invalid value: 512: must be a power of two and at least 1 MiB'],
    accepted: plain({ size: { unit: 'K', value: 1024 } }),
  },
])

testSilent('shmem', [plain({ size: { unit: 'M', value: 0 } })])
