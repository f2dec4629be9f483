import type { Cause } from '../api/cause.ts'
import { sizeOf } from '../api/steps.ts'
import type { VirtualMachine } from '../api/virtual-machine.ts'

/**
 * etcd stores objects of at most 1.5 MiB. A third is left for the status and for the API server's own metadata: a VM
 * that is too large for its status, or for a deletion timestamp, could neither be reported nor deleted.
 */
const maxBytes = 1024 * 1024

/** The longest key of a label, and 64 characters of text in UTF-8. */
const maxBytesPerStep = 512

/** Refuses a VM that is too large to be stored once it is complete. Only large VMs are written as JSON to find out. */
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
      message: `must be at most ${maxBytes} bytes of JSON with its metadata and everything that completion adds`,
      suggestion: 'shorten its texts and lists, or those of the presets that select it',
    },
  ]
}
