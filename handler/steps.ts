import type { Persisted } from '../runtime/resource.ts'
import { plan, type Action, type Observation } from './plan.ts'
import type { CachedVm } from './slim-vm.ts'
import { costOfUpdate, statusWriteOf, type StatusWrite, type UpdateCost } from './status-write.ts'

/** An action without the status that it writes, and so without the launcher's report. */
export type Step =
  | Exclude<Action, { do: 'updateStatus' }>
  | { readonly do: 'updateStatus'; readonly write: StatusWrite }

const withoutRequest: readonly Action['do'][] = ['updateStatus', 'recordEvent', 'requeueAfter', 'releaseLauncher']

/**
 * What is planned for the VM, and can be done now. Nothing of it keeps the observation in memory.
 * @param mayBegin is asked about the update, if there is one; it is then the first step. `asks`: the launcher is asked for
 *   something, and can refuse it
 */
export function stepsOf(
  vm: Persisted<CachedVm>,
  observation: Observation,
  now: string,
  mayBegin: (cost: UpdateCost | undefined, asks: boolean) => boolean,
): readonly Step[] {
  const actions = plan(vm, observation, now)
  const update = actions.find((action) => action.do === 'updateStatus')
  const cost = update === undefined ? undefined : costOfUpdate(vm, update.status)
  const asks = actions.some((action) => !withoutRequest.includes(action.do))
  return (mayBegin(cost, asks) ? actions : withoutUpdate(actions)).map((action) =>
    action.do === 'updateStatus' ? { do: 'updateStatus', write: statusWriteOf(vm, action.status, cost) } : action,
  )
}

/**
 * The steps that can be done while the update has no turn. The next round plans it again, with the events that follow it
 * directly: those are about what it stores. A launcher is released only after its final status is stored.
 */
export function withoutUpdate<T extends { readonly do: Action['do'] }>(steps: readonly T[]): readonly T[] {
  const at = steps.findIndex((step) => step.do === 'updateStatus')
  if (at === -1) return steps
  const next = steps.findIndex((step, index) => index > at && step.do !== 'recordEvent')
  const others = next === -1 ? [] : steps.slice(next)
  return [...steps.slice(0, at), ...others.filter((step) => step.do !== 'releaseLauncher')]
}
