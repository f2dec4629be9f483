import type { Cause } from '../../api/cause.ts'
import { validPartOf, parseVirtualMachine } from '../../api/virtual-machine.ts'
import type { VirtualMachine } from '../../api/virtual-machine.ts'
import type { Completed } from '../../completion/complete.ts'
import { checkReserved } from '../../completion/reserved.ts'
import type { Engine } from './engine.ts'
import type { Permissions } from './permission.ts'
import type { Audit, AdmissionRequest } from './request.ts'

/** Everything that completion of a new VM found, so that one response reports it all. */
export interface Completion {
  /** Violations of the schema. */
  readonly faults: readonly Cause[]
  /** Violations of rules; if there are faults, those in the valid part of the VM. */
  readonly causes: readonly Cause[]
  /** The VM as sent and as completed; absent if there are faults or causes. */
  readonly vm?: { readonly sent: VirtualMachine; readonly completed: Completed }
  readonly warnings: readonly string[]
  readonly audit: Audit
}

/** @param isTrusted whether the user may write reserved metadata */
export function completeRequest(
  request: AdmissionRequest,
  engine: Pick<Engine, 'complete'>,
  permissions: Permissions,
  isTrusted: boolean,
): Completion {
  const parsed = parseVirtualMachine(request.object)
  const faults = 'causes' in parsed ? parsed.causes : []
  const valid = 'causes' in parsed ? validPartOf(request.object, parsed.causes) : { vm: parsed.vm, without: [] }
  if (valid === undefined) return { faults, causes: [], warnings: [], audit: {} }
  const reserved = isTrusted ? [] : checkReserved(valid.vm, undefined)
  const outcome = engine.complete(valid.vm, request, permissions, valid.without)
  const { audit = {} } = outcome
  // Warnings about a part may not apply to the whole VM.
  const warnings = faults.length > 0 ? [] : outcome.warnings
  const causes = 'causes' in outcome ? [...reserved, ...outcome.causes] : reserved
  if ('causes' in outcome || faults.length + causes.length > 0) return { faults, causes, warnings, audit }
  return { faults, causes, vm: { sent: valid.vm, completed: outcome.completed }, warnings, audit }
}
