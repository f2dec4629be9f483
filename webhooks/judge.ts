import type { Cause } from '../api/cause.ts'
import { faultlessMachine, parseMachine } from '../api/machine.ts'
import type { VirtualMachine } from '../api/machine.ts'
import type { Completed } from '../completion/complete.ts'
import { checkReserved } from '../completion/reserved.ts'
import type { Engine } from './engine.ts'
import type { Permissions } from './permission.ts'
import type { Audit, Review } from './review.ts'

/** What there is to say of a new VM, in one answer. */
export interface Judged {
  /** What is wrong with it by itself. */
  readonly faults: readonly Cause[]
  /** What is wrong with the whole; where there are faults, with what is left without them. */
  readonly causes: readonly Cause[]
  /** As it was sent, and completed; absent where anything is wrong. */
  readonly machine?: { readonly sent: VirtualMachine; readonly completed: Completed }
  readonly warnings: readonly string[]
  readonly audit: Audit
}

/** @param isTrusted whether its user may write what is reserved */
export function judgeMachine(
  review: Review,
  engine: Pick<Engine, 'complete'>,
  permissions: Permissions,
  isTrusted: boolean,
): Judged {
  const parsed = parseMachine(review.object)
  const faults = 'causes' in parsed ? parsed.causes : []
  const rest =
    'causes' in parsed ? faultlessMachine(review.object, parsed.causes) : { machine: parsed.machine, without: [] }
  if (rest === undefined) return { faults, causes: [], warnings: [], audit: {} }
  const reserved = isTrusted ? [] : checkReserved(rest.machine, undefined)
  const outcome = engine.complete(rest.machine, review, permissions, rest.without)
  const { audit = {} } = outcome
  // Of a part of a VM, what works but is surely not meant may well be.
  const warnings = faults.length > 0 ? [] : outcome.warnings
  const causes = 'causes' in outcome ? [...reserved, ...outcome.causes] : reserved
  if ('causes' in outcome || faults.length + causes.length > 0) return { faults, causes, warnings, audit }
  return { faults, causes, machine: { sent: rest.machine, completed: outcome.completed }, warnings, audit }
}
