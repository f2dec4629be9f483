import type { Domain } from '../../api/domain/domain.ts'
import { scaled } from '../../api/domain/elements/size.ts'
import { exactNumber } from '../../api/domain/scalar-value.ts'
import { rule } from './rule.ts'

const inKibibytes = { value: 'value', unit: 'unit', absent: 'KiB', to: 'KiB' } as const

const kibibytes = (value: unknown, unit: unknown): bigint => scaled(inKibibytes, value, unit)?.value ?? 0n

/** In KiB: what memory devices have. */
export const memoryOfDevices = ({ devices }: Domain): bigint =>
  (devices?.memories ?? []).reduce((sum, { target }) => sum + kibibytes(target?.size?.value, target?.size?.unit), 0n)

/**
 * All the memory that the guest boots with, in KiB: what is stated, else that of its NUMA nodes and what is plugged in.
 */
export const totalMemory = (domain: Domain): bigint => {
  const stated = kibibytes(domain.memory?.value, domain.memory?.unit)
  if (stated > 0n) return stated
  const cells = domain.cpu?.numa?.cells ?? []
  const ofCells = cells.reduce((sum, { memory, unit }) => sum + kibibytes(memory, unit), 0n)
  return ofCells === 0n ? 0n : ofCells + memoryOfDevices(domain)
}

export const memory = rule('memory', 'The memory is that of the NUMA nodes and of the memory devices.', (domain) => {
  const total = totalMemory(domain)
  return total === 0n ? undefined : { memory: { unit: 'KiB', value: exactNumber(total) } }
})

export const memoryUnit = rule(
  'memory-unit',
  'A bare amount of memory is in KiB.',
  ({ memory: stated }) => stated && { memory: { unit: 'KiB' } },
)

export const currentMemoryUnit = rule(
  'current-memory-unit',
  'A bare amount of memory is in KiB.',
  ({ currentMemory: stated }) => stated && { currentMemory: { unit: 'KiB' } },
)

export const currentMemory = rule('current-memory', 'The balloon leaves all the memory to the guest.', (domain) => {
  const total = totalMemory(domain)
  return domain.currentMemory?.value !== undefined || total === 0n
    ? undefined
    : { currentMemory: { unit: 'KiB', value: exactNumber(total) } }
})
