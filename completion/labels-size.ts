import type { Cause } from '../api/cause.ts'
import type { ObjectMeta } from '../api/object.ts'
import { isRecord } from '../api/schema.ts'

/**
 * The limit for all keys and values together. Labels are compared with the selectors of presets and groups and copied to
 * the pod, whose watchers cache them. Kubernetes limits the size of each label, but not their number.
 */
const maxBytes = 16 * 1024

type Labels = ObjectMeta['labels']

/**
 * Refuses labels that are too large together. A stored VM that has more, from an earlier version, can change them as
 * long as they do not grow.
 */
export function labelsSizeCauses(labels: Labels, stored?: Labels): readonly Cause[] {
  const value = bytesOf(labels)
  if (value <= Math.max(maxBytes, bytesOf(stored))) return []
  return [
    {
      rule: 'labels-size',
      field: 'metadata.labels',
      value,
      reason: 'FieldValueTooLong',
      message: `must be at most ${maxBytes} bytes of keys and values, including labels that presets add`,
      suggestion: 'use annotations for values by which nothing selects',
    },
  ]
}

/** Whether labels that nothing has checked yet exceed the limit. Reads no values beyond it. */
export function areTooLarge(labels: unknown): boolean {
  if (!isRecord(labels)) return false
  let left = maxBytes
  for (const key of Object.keys(labels)) {
    const value = labels[key]
    left -= key.length + (typeof value === 'string' ? value.length : 0)
    if (left < 0) return true
  }
  return false
}

/** Keys and values of labels are ASCII. */
const bytesOf = (labels: Labels = {}): number =>
  Object.entries(labels).reduce((sum, [key, value]) => sum + key.length + value.length, 0)
