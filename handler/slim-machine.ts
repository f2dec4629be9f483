import { createHash } from 'node:crypto'
import { isDeepStrictEqual } from 'node:util'
import type { MachineStatus, VirtualMachine } from '../api/machine.ts'
import { gracePeriodAnnotation } from '../api/template.ts'
import type { Persisted } from '../runtime/resource.ts'

/**
 * A VM as the handler caches it: without the annotations that it does not read, and with a digest in the place of the live domain, with which
 * new ones are only compared. A domain comes from a launcher, and those of a full node would not fit into the handler's memory.
 */
export function slimMachine(machine: Persisted<VirtualMachine>): Persisted<VirtualMachine> {
  const { annotations, ...metadata } = machine.metadata
  const grace = annotations?.[gracePeriodAnnotation]
  const kept = grace === undefined ? metadata : { ...metadata, annotations: { [gracePeriodAnnotation]: grace } }
  const { status } = machine
  if (status?.domain === undefined) return { ...machine, metadata: kept }
  return { ...machine, metadata: kept, status: { ...status, domain: digestOf(status.domain) } }
}

/** What stands for a domain in a slim VM. The API server keeps no order of keys. */
export function digestOf(domain: NonNullable<MachineStatus['domain']>): { readonly digest: string } {
  return { digest: createHash('sha256').update(JSON.stringify(domain, sortKeys)).digest('base64') }
}

function sortKeys(_: string, value: unknown): unknown {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return value
  return Object.fromEntries(Object.entries(value).toSorted(([one], [other]) => (one < other ? -1 : 1)))
}

/** Patches each field of the status that differs, so that what a slim VM has in the place of another value is not written. */
export function statusPatch({ status: before }: VirtualMachine, after: MachineStatus): object[] {
  if (before === undefined) return [{ op: 'add', path: '/status', value: after }]
  const old = new Map<string, unknown>(Object.entries(before))
  const changed = Object.entries(after).filter(([key, value]) => !isDeepStrictEqual(old.get(key), value))
  const removed = Object.keys(before).filter((key) => !(key in after))
  return [
    ...changed.map(([key, value]) => ({ op: 'add', path: `/status/${key}`, value })),
    ...removed.map((key) => ({ op: 'remove', path: `/status/${key}` })),
  ]
}
