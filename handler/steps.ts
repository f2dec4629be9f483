import type { Persisted } from '../runtime/resource.ts'
import { plan, type Action, type Observation } from './plan.ts'
import type { CachedVm } from './slim-vm.ts'
import { statusWriteOf, type StatusWrite } from './status-write.ts'

/** An action without the status that it writes, and so without the launcher's report. */
export type Step =
  | Exclude<Action, { do: 'updateStatus' }>
  | { readonly do: 'updateStatus'; readonly write: StatusWrite }

/** What is planned for the VM. Nothing of it keeps the observation in memory. */
export const stepsOf = (vm: Persisted<CachedVm>, observation: Observation, now: string): Step[] =>
  plan(vm, observation, now).map((action) =>
    action.do === 'updateStatus' ? { do: 'updateStatus', write: statusWriteOf(vm, action.status) } : action,
  )
