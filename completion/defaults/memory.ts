import type { Domain } from '../../api/domain/domain.ts'
import { scaled } from '../../api/domain/elements/size.ts'
import { exactNumber } from '../../api/domain/scalar-value.ts'
import { rule } from './rule.ts'

const inKibibytes = { value: 'value', unit: 'unit', absent: 'KiB', to: 'KiB' } as const

const kibibytes = (value: unknown, unit: unknown): bigint => scaled(inKibibytes, value, unit)?.value ?? 0n

/** The memory of memory devices, in KiB. */
export const memoryOfDevices = ({ devices }: Domain): bigint =>
  (devices?.memories ?? []).reduce((sum, { target }) => sum + kibibytes(target?.size?.value, target?.size?.unit), 0n)

/** The memory of NUMA nodes and memory devices together, in KiB, which libvirt puts in place of `memory`; 0 without nodes. */
export const memoryOfNodes = (domain: Domain): bigint => {
  const cells = domain.cpu?.numa?.cells ?? []
  const ofCells = cells.reduce((sum, { memory, unit }) => sum + kibibytes(memory, unit), 0n)
  return ofCells === 0n ? 0n : ofCells + memoryOfDevices(domain)
}

/** The memory that the guest boots with, in KiB: as set, or else the sum of its NUMA nodes and memory devices. */
export const totalMemory = (domain: Domain): bigint => {
  const stated = kibibytes(domain.memory?.value, domain.memory?.unit)
  return stated > 0n ? stated : memoryOfNodes(domain)
}

export const memory = rule('memory', 'The memory is the sum of the NUMA nodes and memory devices.', (domain) => {
  const total = totalMemory(domain)
  return total === 0n ? undefined : { memory: { unit: 'KiB', value: exactNumber(total) } }
})

export const memoryUnit = rule(
  'memory-unit',
  'The unit of an amount of memory is KiB.',
  ({ memory: stated }) => stated && { memory: { unit: 'KiB' } },
)

export const currentMemoryUnit = rule(
  'current-memory-unit',
  'The unit of an amount of memory is KiB.',
  ({ currentMemory: stated }) => stated && { currentMemory: { unit: 'KiB' } },
)

export const currentMemory = rule('current-memory', 'The balloon leaves all memory to the guest.', (domain) => {
  const total = totalMemory(domain)
  return domain.currentMemory?.value !== undefined || total === 0n
    ? undefined
    : { currentMemory: { unit: 'KiB', value: exactNumber(total) } }
})
