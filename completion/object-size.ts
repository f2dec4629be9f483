import type { Cause } from '../api/cause.ts'
import { sizeOf } from '../api/steps.ts'
import type { VirtualMachine } from '../api/virtual-machine.ts'

/**
 * etcd stores objects of at most 1.5 MiB. A third of that is reserved for the status and the API server's own metadata:
 * a VM without room for its status or a deletion timestamp could not be reported or deleted.
 */
const maxBytes = 1024 * 1024

/** The longest label key, and 64 characters of text in UTF-8. */
const maxBytesPerStep = 512

/** Refuses a VM that is too large to store after completion. Serializes it only if an upper bound exceeds the limit. */
export function objectSizeCauses({ metadata, spec }: VirtualMachine): readonly Cause[] {
  if ((sizeOf(metadata) + sizeOf(spec)) * maxBytesPerStep <= maxBytes) return []
  const value = Buffer.byteLength(JSON.stringify({ metadata, spec }))
  if (value <= maxBytes) return []
  return [
    {
      rule: 'object-size',
      field: 'spec',
      value,
      reason: 'FieldValueTooLong',
      message: `must be at most ${maxBytes} bytes of JSON including its metadata and everything that completion adds`,
      suggestion: 'shorten its texts and lists, or those of the presets that select it',
    },
  ]
}
