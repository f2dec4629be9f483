import type { Persisted } from '../runtime/resource.ts'
import { plan, type Action, type Observation } from './plan.ts'
import type { CachedVm } from './slim-vm.ts'
import { statusWriteOf, type StatusWrite } from './status-write.ts'

/** An action without the status that it writes, and so without the launcher's report. */
export type Step =
  | Exclude<Action, { do: 'updateStatus' }>
  | { readonly do: 'updateStatus'; readonly write: StatusWrite }

/** What is planned for the VM. Nothing of it keeps the observation in memory. */
export const stepsOf = (vm: Persisted<CachedVm>, observation: Observation, now: string): readonly Step[] =>
  plan(vm, observation, now).map((action) =>
    action.do === 'updateStatus' ? { do: 'updateStatus', write: statusWriteOf(vm, action.status) } : action,
  )

/**
 * The steps that can be done while the update has no turn. The next round plans it again, with the events that follow it
 * directly: those are about what it stores. A launcher is released only after its final status is stored.
 */
export function withoutUpdate(steps: readonly Step[]): readonly Step[] {
  const at = steps.findIndex((step) => step.do === 'updateStatus')
  if (at === -1) return steps
  const next = steps.findIndex((step, index) => index > at && step.do !== 'recordEvent')
  const others = next === -1 ? [] : steps.slice(next)
  return [...steps.slice(0, at), ...others.filter((step) => step.do !== 'releaseLauncher')]
}
