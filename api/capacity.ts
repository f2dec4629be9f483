import type { Cause } from './cause.ts'
import { quantityValue } from './quantity.ts'

/** The largest size of a file in Linux, and of a quantity in Kubernetes. */
const largestCapacity = 2n ** 63n - 1n

/** Checks the size of a disk. */
export function checkCapacity(capacity: string, field: string): Cause[] {
  const bytes = quantityValue(capacity) ?? 0n
  if (bytes > 0n && bytes <= largestCapacity) return []
  const message =
    bytes > 0n ? `must be at most ${largestCapacity} bytes, which is less than 8Ei` : 'must be more than 0'
  return [{ rule: 'volume-capacity', field, value: capacity, reason: 'FieldValueInvalid', message }]
}
