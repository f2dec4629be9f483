import type { Domain } from '../../api/domain/domain.ts'
import { testRule } from '../../test/rule-table.ts'
import type { DeviceOf } from './device.ts'

type Address = NonNullable<DeviceOf<'rngs'>['address']>

const rng = (address: Address): Domain => ({
  devices: { rngs: [{ model: 'virtio', backend: { model: 'builtin' }, address }] },
})

const redirdev = (address: Address): Domain => ({
  devices: { redirdevs: [{ type: 'spicevmc', bus: 'usb', address }], graphics: [{ type: 'spice' }] },
})

const pmem = (address: Address): Domain => ({
  maxMemory: { value: 4, unit: 'GiB', slots: 2 },
  cpu: { numa: { cells: [{ cpus: '0', memory: 1, unit: 'GiB' }] } },
  devices: {
    memories: [
      { model: 'virtio-pmem', source: { path: '/pmem' }, target: { size: { value: 1, unit: 'GiB' } }, address },
    ],
  },
})

testRule('address-kind', [
  {
    refused: rng({ type: 'unassigned' }),
    causes: ['spec.domain.devices.rngs[0].address.type: Forbidden: can only be set for hostdevs'],
    accepted: rng({ type: 'pci', slot: 9 }),
  },
  {
    refused: rng({ type: 'ccid', controller: 0, slot: 0 }),
    causes: ['spec.domain.devices.rngs[0].address.type: Forbidden: can only be set for smartcards'],
    accepted: { devices: { smartcards: [{ mode: 'host', address: { type: 'ccid', controller: 0, slot: 0 } }] } },
  },
  {
    refused: redirdev({ type: 'pci', slot: 9 }),
    causes: [
      'spec.domain.devices.redirdevs[0].address.type: Invalid value: "pci": must be usb for a redirected device',
    ],
    accepted: redirdev({ type: 'usb', bus: 0, port: '1' }),
  },
  {
    refused: rng({ type: 'virtio-s390' }),
    causes: ['spec.domain.devices.rngs[0].address.type: Unsupported value: "virtio-s390": is not supported on x86'],
    accepted: rng({ type: 'pci' }),
  },
  {
    refused: rng({ type: 'mdev' }),
    causes: ['spec.domain.devices.rngs[0].address.type: Unsupported value: "mdev": is not supported on x86'],
    accepted: rng({ type: 'pci' }),
  },
  {
    refused: pmem({ type: 'dimm' }),
    causes: ['spec.domain.devices.memories[0].address.slot: Required value: must be set for type dimm'],
    accepted: pmem({ type: 'pci', slot: 9 }),
  },
])
