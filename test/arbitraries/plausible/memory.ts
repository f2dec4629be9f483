import fc from 'fast-check'
import type { Domain } from '../../../api/domain/domain.ts'
import type { DeviceOf } from '../../../completion/defaults/rule.ts'
import { any, many, mostly, part, rarely, small, weighted } from './part.ts'

export const size = weighted(
  [4, part({ unit: fc.constantFrom('MiB', 'GiB'), value: fc.integer({ min: 1, max: 4096 }) })],
  [2, fc.constant({ unit: 'MiB', value: 512 })],
  [1, fc.constant({ value: 219136 })],
)

export const memoryBacking = rarely(
  {},
  {
    hugepages: fc.constant({}),
    nosharepages: fc.constant({}),
    locked: fc.constant({}),
    source: part({ type: any('memoryBacking.source.type') }),
    access: part({ mode: any('memoryBacking.access.mode') }),
    allocation: part({ mode: any('memoryBacking.allocation.mode') }),
  },
)

export const memories = many(
  rarely(
    {
      model: mostly('devices.memories.model', 'dimm', 'nvdimm', 'virtio-mem'),
      target: rarely(
        { size: fc.constantFrom({ unit: 'MiB', value: 128 }, { unit: 'KiB', value: 524_288 }) },
        {
          node: small(1),
          block: fc.constant({ unit: 'KiB', value: 2048 }),
          requested: fc.constant({ unit: 'KiB', value: 0 }),
          label: fc.constant({ size: { unit: 'KiB', value: 128 } }),
        },
      ),
    },
    {
      access: any('devices.memories.access'),
      source: fc.constant({ path: '/tmp/nvdimm' }),
      address: fc.constantFrom({ type: 'dimm', slot: 0 }, { type: 'dimm', slot: 1, base: '0x100000000' }),
    },
  ),
  2,
)

type Memory = DeviceOf<'memories'>

/** Gives a memory device the room it needs, a file if it is persistent, and an existing node. */
export const carefulMemory = (domain: Domain): Domain => {
  const memories = domain.devices?.memories
  if (!memories) return domain
  return {
    ...domain,
    maxMemory: { slots: 16, unit: 'GiB', value: 8192 },
    memory: { unit: 'GiB', value: 4 },
    devices: { ...domain.devices, memories: memories.map(carefulModule) },
  }
}

const carefulModule = ({ source, address, access, target: stated, ...one }: Memory, index: number): Memory => {
  const { node: _, label, block, requested, ...target } = stated ?? {}
  const isKept = one.model === 'nvdimm' || one.model === 'virtio-pmem'
  const isModule = one.model === 'dimm' || one.model === 'nvdimm'
  return {
    ...one,
    ...(isKept ? { source: source ?? { path: '/tmp/nvdimm' } } : {}),
    ...(access && one.model !== 'virtio-pmem' && one.model !== 'sgx-epc' ? { access } : {}),
    ...(address && isModule && index === 0 ? { address } : {}),
    target: {
      ...target,
      ...(one.model === 'virtio-pmem' ? {} : { node: 0 }),
      ...(label && one.model === 'nvdimm' ? { label } : {}),
      ...(one.model === 'virtio-mem'
        ? { block: block ?? { unit: 'KiB', value: 2048 }, requested: requested ?? { unit: 'KiB', value: 0 } }
        : {}),
    },
  } as Memory
}
