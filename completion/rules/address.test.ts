import type { Domain } from '../../api/domain/domain.ts'
import { testRule, testSilent } from '../../test/rule-table.ts'
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

const disk = (address: Address): Domain => ({
  devices: { disks: [{ source: { file: '/a' }, target: { dev: 'sda', bus: 'sata' }, address }] },
})
const hub = (address: Address): Domain => ({ devices: { hubs: [{ type: 'usb', address }] } })
const smartcard = (address: Address): Domain => ({ devices: { smartcards: [{ mode: 'host', address }] } })
const channel = (address: Address): Domain => ({
  devices: { channels: [{ type: 'pty', target: { type: 'virtio', name: 'org.example.a' }, address }] },
})
const serial = (address: Address): Domain => ({
  devices: { serials: [{ type: 'pty', target: { type: 'isa-serial', port: 0 }, address }] },
})
const dimm = (address: Address): Domain => ({
  ...pmem({}),
  devices: { memories: [{ model: 'dimm', target: { size: { value: 1, unit: 'GiB' }, node: 0 }, address }] },
})
const hostdev = (address: Address): Domain => ({
  devices: { hostdevs: [{ mode: 'subsystem', type: 'pci', source: { address: { bus: 3, slot: 0 } }, address }] },
})

testRule('address-fields', [
  {
    refused: hub({ type: 'usb', bus: 0, port: '1', slot: 3, function: 0 }),
    causes: [
      'spec.domain.devices.hubs[0].address.slot: Forbidden: must not be set for type usb, only bus, port',
      'spec.domain.devices.hubs[0].address.function: Forbidden: must not be set for type usb, only bus, port',
    ],
    accepted: hub({ type: 'usb', bus: 0, port: '1' }),
  },
  {
    refused: rng({ type: 'pci', slot: 9, unit: 0 }),
    causes: [
      'spec.domain.devices.rngs[0].address.unit: Forbidden: must not be set for type pci, only domain, bus, slot, function, multifunction',
    ],
    accepted: rng({ type: 'pci', domain: 0, bus: 0, slot: 9, function: 0, multifunction: true }),
  },
  {
    refused: disk({ type: 'drive', unit: 1, port: '1' }),
    causes: [
      'spec.domain.devices.disks[0].address.port: Forbidden: must not be set for type drive, only controller, bus, target, unit',
    ],
    accepted: disk({ type: 'drive', controller: 0, bus: 0, target: 0, unit: 1 }),
  },
  {
    refused: channel({ type: 'virtio-serial', port: '1', slot: 1 }),
    causes: [
      'spec.domain.devices.channels[0].address.slot: Forbidden: must not be set for type virtio-serial, only controller, bus, port',
    ],
    accepted: channel({ type: 'virtio-serial', controller: 0, bus: 0, port: '1' }),
  },
  {
    refused: smartcard({ type: 'ccid', controller: 0, slot: 0, bus: 0 }),
    causes: [
      'spec.domain.devices.smartcards[0].address.bus: Forbidden: must not be set for type ccid, only controller, slot',
    ],
    accepted: smartcard({ type: 'ccid', controller: 0, slot: 0 }),
  },
  {
    refused: serial({ type: 'isa', iobase: 0x3f8, base: 1 }),
    causes: ['spec.domain.devices.serials[0].address.base: Forbidden: must not be set for type isa, only iobase, irq'],
    accepted: serial({ type: 'isa', iobase: 0x3f8, irq: 4 }),
  },
  {
    refused: dimm({ type: 'dimm', slot: 0, unit: 0 }),
    causes: ['spec.domain.devices.memories[0].address.unit: Forbidden: must not be set for type dimm, only slot, base'],
    accepted: dimm({ type: 'dimm', slot: 0, base: 0x140000000 }),
  },
  {
    refused: hostdev({ type: 'unassigned', slot: 1 }),
    causes: [
      'spec.domain.devices.hostdevs[0].address.slot: Forbidden: must not be set for type unassigned, which has no fields',
    ],
    accepted: hostdev({ type: 'unassigned' }),
  },
])

testSilent('address-fields', [rng({ type: 'virtio-mmio', slot: 1 })])
