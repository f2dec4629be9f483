import type { Domain } from '../../api/domain/domain.ts'
import { bundledCapabilities } from '../capabilities.ts'
import { testRule, testSilent } from '../../test/rule-table.ts'
import type { DeviceOf } from './device.ts'

type Memory = DeviceOf<'memories'>

const mib = (value: number) => ({ unit: 'MiB', value })

const guest: Domain = {
  maxMemory: { unit: 'GiB', value: 8, slots: 2 },
  cpu: { numa: { cells: [{ id: 0, cpus: '0', memory: 1, unit: 'GiB' }] } },
}

/** A guest with one NUMA node, two slots and these memory devices. */
const plugged = (...memories: Memory[]): Domain => ({ ...guest, devices: { memories } })

const dimm = (target: Memory['target'] = {}, more: Memory = {}): Memory => ({
  model: 'dimm',
  target: { size: mib(256), node: 0, ...target },
  ...more,
})

const virtioMem = (target: Memory['target'] = {}, more: Memory = {}): Memory => ({
  model: 'virtio-mem',
  target: { size: mib(256), node: 0, block: mib(2), requested: mib(128), ...target },
  ...more,
})

const pmem = (target: Memory['target'] = {}, more: Memory = {}): Memory => ({
  model: 'virtio-pmem',
  source: { path: '/pmem' },
  target: { size: mib(256), ...target },
  ...more,
})

const nvdimm = (target: Memory['target'] = {}, more: Memory = {}): Memory =>
  dimm(target, { model: 'nvdimm', source: { path: '/nvdimm' }, ...more })

const withoutNode: Memory = { model: 'dimm', target: { size: mib(256) } }

testRule('memory-device-node', [
  {
    refused: plugged(pmem({ node: 0 })),
    causes: ['spec.domain.devices.memories[0].target.node: Forbidden: must not be set for virtio-pmem'],
    accepted: plugged(pmem()),
  },
  {
    refused: plugged(withoutNode),
    causes: ['spec.domain.devices.memories[0].target.node: Required value: must be set: the NUMA node of the guest'],
    accepted: plugged(dimm()),
  },
  {
    refused: plugged(dimm({ node: 1 })),
    causes: ['spec.domain.devices.memories[0].target.node: Not found: 1: cpu.numa has cells 0 to 0 only'],
    accepted: plugged(dimm({ node: 0 })),
  },
  {
    refused: { maxMemory: { unit: 'GiB', value: 8, slots: 2 }, devices: { memories: [dimm()] } },
    causes: [
      'spec.domain.devices.memories[0].target.node: Not found: 0: no NUMA node has this id: cpu.numa has no cells',
    ],
    accepted: plugged(dimm()),
  },
])

const sgx = { ...bundledCapabilities, devices: [...bundledCapabilities.devices, 'sgx-epc'] }
const noSgx = { ...bundledCapabilities, devices: bundledCapabilities.devices.filter((name) => name !== 'sgx-epc') }

testRule('memory-device-target', [
  {
    refused: plugged({ target: { size: mib(256), node: 0 } }),
    causes: ['spec.domain.devices.memories[0].model: Required value: must be set'],
    accepted: plugged(dimm()),
  },
  {
    refused: plugged({ model: 'dimm', target: { node: 0 } }),
    causes: ['spec.domain.devices.memories[0].target.size: Required value: must be set'],
    accepted: plugged(dimm()),
  },
  {
    refused: plugged(dimm({ size: mib(0) })),
    causes: ['spec.domain.devices.memories[0].target.size: Required value: must be set'],
    accepted: plugged(dimm({ size: mib(1) })),
  },
  {
    refused: plugged({ model: 'virtio-mem', target: { size: mib(256), node: 0, requested: mib(128) } }),
    causes: [
      'spec.domain.devices.memories[0].target.block: Required value: must be set for virtio-mem: the step in which it grows',
    ],
    accepted: plugged(virtioMem()),
  },
  {
    refused: plugged(virtioMem({ block: { unit: 'KiB', value: 3072 } })),
    causes: [
      'spec.domain.devices.memories[0].target.block.value: Invalid value: "3072": must be a power of two and at least 2048 KiB',
    ],
    accepted: plugged(virtioMem({ block: { unit: 'KiB', value: 4096 } })),
  },
  {
    refused: plugged(virtioMem({ block: mib(1) })),
    causes: [
      'spec.domain.devices.memories[0].target.block.value: Invalid value: "1024": must be a power of two and at least 2048 KiB',
    ],
    accepted: plugged(virtioMem({ block: mib(2) })),
  },
  {
    refused: plugged(virtioMem({ address: { base: '0x140100000' } })),
    causes: [
      'spec.domain.devices.memories[0].target.address.base: Invalid value: "0x140100000": must be a multiple of the block size, 2048 KiB',
    ],
    accepted: plugged(virtioMem({ address: { base: '0x140200000' } })),
  },
  {
    refused: plugged(virtioMem({ requested: mib(127) })),
    causes: [
      'spec.domain.devices.memories[0].target.requested.value: Invalid value: "130048": must be a multiple of the block size, 2048 KiB',
    ],
    accepted: plugged(virtioMem({ requested: mib(128) })),
  },
  {
    refused: plugged(virtioMem({ requested: mib(258) })),
    causes: [
      'spec.domain.devices.memories[0].target.requested.value: Invalid value: "264192": must be at most the size, 262144 KiB',
    ],
    accepted: plugged(virtioMem({ requested: mib(256) })),
  },
  {
    refused: plugged(nvdimm({ label: { size: { unit: 'KiB', value: 127 } } })),
    causes: [
      'spec.domain.devices.memories[0].target.label.size.value: Invalid value: "127": must be at least 128 KiB and less than the size',
    ],
    accepted: plugged(nvdimm({ label: { size: { unit: 'KiB', value: 128 } } })),
  },
  {
    refused: plugged(nvdimm({ label: { size: mib(256) } })),
    causes: [
      'spec.domain.devices.memories[0].target.label.size.value: Invalid value: "262144": must be at least 128 KiB and less than the size',
    ],
    accepted: plugged(nvdimm({ label: { size: mib(128) } })),
  },
  {
    refused: plugged(dimm({}, { model: 'nvdimm' })),
    causes: [
      'spec.domain.devices.memories[0].source.path: Required value: must be set for nvdimm: the file that stores its content',
    ],
    accepted: plugged(nvdimm()),
  },
  {
    refused: plugged({ model: 'virtio-pmem', target: { size: mib(256) } }),
    causes: [
      'spec.domain.devices.memories[0].source.path: Required value: must be set for virtio-pmem: the file that stores its content',
    ],
    accepted: plugged(pmem()),
  },
  {
    refused: plugged(pmem({ address: { base: '0x140000800' } })),
    causes: [
      'spec.domain.devices.memories[0].target.address.base: Invalid value: "0x140000800": must be a multiple of 4096',
    ],
    accepted: plugged(pmem({ address: { base: '0x140001000' } })),
  },
  {
    refused: plugged(virtioMem({}, { address: { type: 'dimm', slot: 0 } })),
    causes: ['spec.domain.devices.memories[0].address.type: Invalid value: "dimm": must be pci for virtio-mem'],
    accepted: plugged(virtioMem({}, { address: { type: 'pci', bus: 0, slot: 9 } })),
  },
  {
    refused: plugged(nvdimm({}, { uuid: '9066901e-c90a-46ad-8b55-c18868cf92ae' })),
    causes: ['spec.domain.devices.memories[0].uuid: Forbidden: must not be set for nvdimm on x86'],
    accepted: plugged(nvdimm()),
  },
  {
    refused: plugged({ model: 'sgx-epc', target: { size: mib(16) } }),
    causes: [
      'spec.domain.devices.memories[0].model: Unsupported value: "sgx-epc": is not supported by QEMU on this node [node without SGX]',
    ],
    accepted: plugged(dimm()),
    capabilities: noSgx,
  },
  {
    refused: plugged({ model: 'sgx-epc' }),
    causes: ['spec.domain.devices.memories[0].target.size: Required value: must be set'],
    accepted: plugged({ model: 'sgx-epc', target: { size: mib(16) } }),
    capabilities: sgx,
  },
  {
    refused: plugged(pmem({}, { access: 'private' })),
    causes: ['spec.domain.devices.memories[0].access: Invalid value: "private": must be shared for virtio-pmem'],
    accepted: plugged(pmem({}, { access: 'shared' })),
  },
  {
    refused: plugged(pmem({}, { discard: true })),
    causes: [
      'spec.domain.devices.memories[0].discard: Forbidden: must not be set for virtio-pmem, whose content is persistent',
    ],
    accepted: plugged(pmem()),
  },
  {
    refused: plugged(nvdimm({}, { discard: false })),
    causes: [
      'spec.domain.devices.memories[0].discard: Forbidden: must not be set for nvdimm, whose content is persistent',
    ],
    accepted: plugged(dimm({}, { discard: false })),
  },
])

testRule('memory-device-slots', [
  {
    refused: { ...(guest.cpu && { cpu: guest.cpu }), devices: { memories: [dimm()] } },
    causes: [
      'spec.domain.maxMemory: Required value: must be set when there are memory devices: the most memory that the guest can get, and the number of slots',
    ],
    accepted: plugged(dimm()),
  },
  {
    refused: plugged(dimm(), dimm(), nvdimm()),
    causes: ['spec.domain.maxMemory.slots: Invalid value: 2: must be at least 3, the number of memory modules'],
    accepted: plugged(dimm(), nvdimm(), virtioMem()),
  },
  {
    refused: plugged(dimm({ size: mib(8192) })),
    causes: [
      'spec.domain.maxMemory.value: Invalid value: "8388608": must be at least 9437184 KiB, the sum of NUMA nodes and memory devices',
    ],
    accepted: plugged(dimm({ size: mib(7168) })),
  },
  {
    refused: { ...guest, maxMemory: { unit: 'GiB', value: 8 }, devices: { memories: [dimm()] } },
    causes: ['spec.domain.maxMemory.slots: Invalid value: 0: must be at least 1, the number of memory modules'],
    accepted: plugged(dimm()),
  },
])

const inSlot = (slot: number): Memory => dimm({}, { address: { type: 'dimm', slot } })

testRule('memory-device-address', [
  {
    refused: plugged(inSlot(0), inSlot(0)),
    causes: [
      'spec.domain.devices.memories[1].address.slot: Duplicate value: 0: is already the slot of spec.domain.devices.memories[0]',
    ],
    accepted: plugged(inSlot(0), inSlot(1)),
  },
  {
    refused: plugged(inSlot(2)),
    causes: [
      'spec.domain.devices.memories[0].address.slot: Invalid value: 2: must be less than 2, the number of slots',
    ],
    accepted: plugged(inSlot(1)),
  },
  {
    refused: plugged(virtioMem({ address: { base: '0x140000000' } }), virtioMem({ address: { base: '0x14fe00000' } })),
    causes: [
      'spec.domain.devices.memories[1].target.address.base: Invalid value: "0x14fe00000": overlaps with spec.domain.devices.memories[0], which occupies 0x140000000 to 0x150000000',
    ],
    accepted: plugged(virtioMem({ address: { base: '0x140000000' } }), virtioMem({ address: { base: '0x150000000' } })),
  },
  {
    refused: plugged(virtioMem({ address: { base: '0x140000000' } }), virtioMem({ address: { base: '0x130200000' } })),
    causes: [
      'spec.domain.devices.memories[1].target.address.base: Invalid value: "0x130200000": overlaps with spec.domain.devices.memories[0], which occupies 0x140000000 to 0x150000000',
    ],
    accepted: plugged(virtioMem({ address: { base: '0x140000000' } }), virtioMem({ address: { base: '0x130000000' } })),
  },
  {
    refused: plugged(
      dimm({}, { address: { type: 'dimm', slot: 0, base: '0x140000000' } }),
      dimm({}, { address: { type: 'dimm', slot: 1, base: '0x140000000' } }),
    ),
    causes: [
      'spec.domain.devices.memories[1].address.base: Invalid value: "0x140000000": overlaps with spec.domain.devices.memories[0], which occupies 0x140000000 to 0x150000000',
    ],
    accepted: plugged(
      dimm({}, { address: { type: 'dimm', slot: 0, base: '0x140000000' } }),
      dimm({}, { address: { type: 'dimm', slot: 1, base: '0x150000000' } }),
    ),
  },
  {
    refused: plugged(
      nvdimm({ label: { size: mib(1) } }, { address: { type: 'dimm', slot: 0, base: '0x140000000' } }),
      dimm({}, { address: { type: 'dimm', slot: 1, base: '0x14fd00000' } }),
    ),
    causes: [
      'spec.domain.devices.memories[1].address.base: Invalid value: "0x14fd00000": overlaps with spec.domain.devices.memories[0], which occupies 0x140000000 to 0x14fe00000',
    ],
    accepted: plugged(
      nvdimm({ label: { size: mib(1) } }, { address: { type: 'dimm', slot: 0, base: '0x140000000' } }),
      dimm({}, { address: { type: 'dimm', slot: 1, base: '0x14fe00000' } }),
    ),
  },
])

testSilent('memory-device-node', [
  { maxMemory: { unit: 'GiB', value: 8, slots: 2 }, devices: { memories: [withoutNode] } },
  plugged({ model: 'sgx-epc', target: { size: mib(16) } }),
])
testSilent('memory-device-target', [
  plugged(dimm({ address: { base: '0x140000800' } })),
  plugged({ model: 'virtio-mem', target: { size: mib(256), node: 0, block: mib(2) } }),
  plugged(dimm({}, { uuid: '9066901e-c90a-46ad-8b55-c18868cf92ae' })),
  plugged(dimm({}, { access: 'private' })),
])
testSilent('memory-device-slots', [
  {},
  { maxMemory: { unit: 'MiB', value: 128, slots: 2 }, devices: { memories: [dimm()] } },
])
testSilent('memory-device-address', [
  plugged(virtioMem({}, { address: { type: 'pci', slot: 9 } })),
  plugged(virtioMem({}, { address: { type: 'dimm', slot: 0 } }), virtioMem({}, { address: { type: 'dimm', slot: 0 } })),
  { ...guest, maxMemory: { unit: 'GiB', value: 8 }, devices: { memories: [inSlot(0)] } },
  plugged(dimm({}, { address: { type: 'dimm', base: '0x0' } }), dimm({}, { address: { type: 'dimm', base: '0x0' } })),
])
