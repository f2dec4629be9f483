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

/**
 * Refuses a VM that is too large to store after completion, or one that an update makes so: a stored one that has more
 * can change as long as it does not grow.
 */
export function objectSizeCauses(vm: VirtualMachine, stored?: VirtualMachine): readonly Cause[] {
  const value = bytesOf(vm)
  if (value <= maxBytes || (stored !== undefined && value <= bytesOf(stored))) return []
  return [
    {
      rule: 'object-size',
      field: stored === undefined ? 'spec' : 'metadata',
      value,
      reason: 'FieldValueTooLong',
      message: `must be at most ${maxBytes} bytes of JSON including its metadata and everything that completion adds`,
      suggestion:
        stored === undefined
          ? 'shorten its texts and lists, or those of the presets that select it'
          : 'shorten its annotations, owners and finalizers, or apply it with fewer field managers',
    },
  ]
}

/** Serializes it only if an upper bound exceeds the limit; otherwise 0. */
function bytesOf({ metadata, spec }: VirtualMachine): number {
  if ((sizeOf(metadata) + sizeOf(spec)) * maxBytesPerStep <= maxBytes) return 0
  return Buffer.byteLength(JSON.stringify({ metadata, spec }))
}
