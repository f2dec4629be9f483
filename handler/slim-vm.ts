import { createHash } from 'node:crypto'
import type { VirtualMachineStatus, VirtualMachine } from '../api/virtual-machine.ts'
import { gracePeriodAnnotation } from '../api/template.ts'
import type { Persisted } from '../runtime/resource.ts'

/**
 * A VM as the handler caches it: without the annotations that it does not read, and with a digest instead of the live
 * domain, which is only compared with new ones. Domains come from launchers, and those of a full node would not fit
 * into the handler's memory.
 */
export function slimVm(vm: Persisted<VirtualMachine>): Persisted<VirtualMachine> {
  const { annotations, ...metadata } = vm.metadata
  const grace = annotations?.[gracePeriodAnnotation]
  const slim = grace === undefined ? metadata : { ...metadata, annotations: { [gracePeriodAnnotation]: grace } }
  const { status } = vm
  if (status?.domain === undefined) return { ...vm, metadata: slim }
  return { ...vm, metadata: slim, status: { ...status, domain: digestOf(status.domain) } }
}

/** The digest of a domain in a slim VM, independent of the order of keys, which the API server does not preserve. */
export function digestOf(domain: NonNullable<VirtualMachineStatus['domain']>): { readonly digest: string } {
  return { digest: createHash('sha256').update(JSON.stringify(domain, sortKeys)).digest('base64') }
}

function sortKeys(_: string, value: unknown): unknown {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return value
  return Object.fromEntries(Object.entries(value).toSorted(([one], [other]) => (one < other ? -1 : 1)))
}
