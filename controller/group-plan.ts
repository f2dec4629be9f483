import { isDeepStrictEqual } from 'node:util'
import type { GroupStatus } from '../api/group.ts'
import { controllerOf, isControlledBy, templateRevisionAnnotation } from '../api/template.ts'
import { isFinished } from '../api/virtual-machine.ts'
import type { VirtualMachine } from '../api/virtual-machine.ts'
import { revisionOf } from '../presets/compile.ts'
import { compileStoredSelector, isSelected, selectorText } from '../presets/selector.ts'
import { findCondition, setCondition } from '../runtime/condition.ts'
import type { Persisted } from '../runtime/resource.ts'
import type { CommonAction } from './action.ts'
import { budgetOf } from './budget.ts'
import type { Budget, CachedBudget } from './budget.ts'
import { disruptionOfVm } from './disruption.ts'
import type { Disruption } from './disruption.ts'
import { freeNames, numberOf } from './group-claims.ts'
import { isAdopting, isPaused } from './slim-owner.ts'
import type { CachedGroup } from './slim-owner.ts'

type Group = Persisted<CachedGroup>
type Vm = Persisted<VirtualMachine>

export interface ObservedGroup {
  readonly group: Group
  /**
   * VMs of the namespace that the group controls, and those without a controller that it selects, including those that
   * this process created and the watch has not delivered.
   */
  readonly vms: readonly Vm[]
  /** Uids of VMs that this process deleted, whether the watch has delivered the deletion or not. */
  readonly deleted: ReadonlySet<string>
  /**
   * Uids of VMs that admission gave labels that the group does not select. They were never members, but can have its
   * claims: they are deleted rather than released, and count until they are gone.
   */
  readonly rejected: ReadonlySet<string>
  /**
   * Uids of VMs that could not be adopted, until it is tried again. None is created in their place, and none of the
   * group is deleted for them.
   */
  readonly refused: Pick<ReadonlySet<string>, 'has'>
  /**
   * Uids of VMs that this process created a moment ago. A guest that powers off as soon as it has started, or a VM that
   * each node evicts, would be replaced without end.
   */
  readonly young: Pick<ReadonlySet<string>, 'has'>
  /** Uids of VMs that this process deleted because the group is scaled in, until they are gone, or seen to stay. */
  readonly scaledIn: Pick<ReadonlySet<string>, 'has'>
  /** The PodDisruptionBudget that the controller maintains for the group. */
  readonly budget: Persisted<CachedBudget> | undefined
  /** The hash of the current template. */
  readonly revision: string
  /** Why the API server refused the last VM; undefined if it accepted it. */
  readonly refusal: string | undefined
  /** How long to create nothing, after failures. */
  readonly backOffMs: number
  /** RFC 3339. */
  readonly now: string
}

export type GroupAction =
  | CommonAction<GroupStatus>
  | { readonly do: 'adoptVm'; readonly vm: Vm }
  | { readonly do: 'releaseVm'; readonly vm: Vm }
  /** `names` of a group with claims; the names of another one are random. */
  | { readonly do: 'createVms'; readonly count: number; readonly names?: readonly string[] }
  /** VMs that have ended, or were never members. */
  | { readonly do: 'deleteVms'; readonly vms: readonly Vm[] }
  /** Deletes VMs by which there are too many, and notes them as scaled in. */
  | { readonly do: 'scaleIn'; readonly vms: readonly Vm[] }
  /** Let the claims of these VMs be deleted with the VMs. */
  | { readonly do: 'bindClaims'; readonly vms: readonly Vm[] }
  /** A VM failed, or left at once: wait longer before creating the next one. */
  | { readonly do: 'backOff' }
  | { readonly do: 'applyBudget'; readonly budget: Budget }
  | { readonly do: 'deleteBudget'; readonly budget: Persisted<CachedBudget> }

/** After a failure, to find out how long to back off. */
const soonMs = 1
/**
 * VMs created in one pass, in batches of 1 + 2 + 4 + 8 + … + 8. Other groups get their turn before the next pass creates
 * more.
 */
const maxCreations = 63
/** The same for VMs with claims: each takes two requests for each of up to 16 claims. In batches of 1 + 2 + 4. */
const maxCreationsWithClaims = 7
/** The same for deletions. The changes of these VMs lead to the next pass. */
const maxDeletions = 64
/** The same for VMs that are adopted and released: each takes two requests, of the whole VM. */
const maxClaims = 64
/** The same for VMs whose claims are deleted with them: no more are deleted in one pass, for they can be gone at once. */
export const maxBindings = 8

/**
 * What to do for a group, in this order.
 *
 * A group never has more VMs than requested, so a terminating VM counts until it is gone: two VMs must not use the same
 * disks. A VM that finished on its own is counted in the status, with its uid, before it is deleted. So it counts once,
 * whichever process dies in between.
 */
export function planGroup(observed: ObservedGroup): GroupAction[] {
  const { group, deleted, rejected, young, backOffMs } = observed
  if (group.metadata.deletionTimestamp !== undefined) return []
  const { members, refused, claims } = selectMembers(observed)
  const sorted = sort(members, observed)
  const { active, terminating, finished, uncounted } = sorted
  const { replicas: desired = 1 } = group.spec
  const paused = isPaused(group)
  const missing = Math.max(0, desired - active.length - terminating.length)
  const isRejected = ({ metadata }: Vm) => rejected.has(metadata.uid)
  const foreign = rejected.size === 0 ? [] : members.filter(isRejected)
  const status = statusOf(observed, sorted, missing + foreign.length > 0 && !paused)
  const update: GroupAction[] = isDeepStrictEqual(status, group.status) ? [] : [{ do: 'updateStatus', status }]
  if (paused) return [...update, ...planBudget(observed)]
  // The changes of these VMs lead to the next pass. None is deleted before it is adopted.
  if (claims.length > maxClaims) return claims.slice(0, maxClaims)
  const order = group.hasClaims === true ? byNumber(group) : byPriority
  const own = refused.size === 0 ? active : active.filter((vm) => !refused.has(vm))
  const surplus = own.length > desired ? own.toSorted(order).slice(0, own.length - desired) : []
  const most = group.deletesClaims === true ? maxBindings : maxDeletions
  // A VM that loses its labels as soon as it is created would be replaced without end, too.
  const isYoungRelease = (one: GroupAction) => one.do === 'releaseVm' && young.has(one.vm.metadata.uid)
  const hasTrouble = uncounted.some((vm) => hasFailed(vm) || young.has(vm.metadata.uid)) || claims.some(isYoungRelease)
  const removed = [...foreign, ...finished].filter((vm) => !isTerminating(vm, deleted)).slice(0, most)
  const condemned = surplus.slice(0, most - removed.length)
  return [
    ...claims,
    ...update,
    ...uncounted.map(reportEnd),
    ...(hasTrouble ? [{ do: 'backOff' } as const] : []),
    ...(removed.length === 0 ? [] : [{ do: 'deleteVms', vms: removed } as const]),
    ...(condemned.length === 0 ? [] : [{ do: 'scaleIn', vms: condemned } as const]),
    ...bindClaims(observed, members, condemned),
    ...(missing === 0 ? [] : create(observed, members, missing, hasTrouble ? soonMs : backOffMs)),
    // Last: a budget that cannot be written ends the pass, and must not keep the group from its VMs.
    ...planBudget(observed),
  ]
}

function create({ group }: ObservedGroup, members: readonly Vm[], missing: number, backOffMs: number): GroupAction[] {
  if (backOffMs > 0) return [{ do: 'requeueAfter', afterMs: backOffMs }]
  if (group.hasClaims !== true) return [{ do: 'createVms', count: Math.min(missing, maxCreations) }]
  const names = freeNames(group, members, Math.min(missing, maxCreationsWithClaims))
  return names.length === 0 ? [] : [{ do: 'createVms', count: names.length, names }]
}

/**
 * Claims are deleted only with VMs that the group itself deletes to be scaled in, unless it is scaled out again before.
 * A number beyond the replicas does not show that: if another VM ended while the group was scaled in, one with such a
 * number stayed in its place, and its end for another reason must not cost its data. After a change of the leader,
 * claims can remain.
 */
function bindClaims(
  { group, deleted, scaledIn }: ObservedGroup,
  members: readonly Vm[],
  condemned: readonly Vm[],
): GroupAction[] {
  if (group.hasClaims !== true || group.deletesClaims !== true) return []
  const earlier = members.filter((vm) => scaledIn.has(vm.metadata.uid) && isTerminating(vm, deleted))
  const isUnused = (vm: Vm) => (numberOf(group, vm) ?? -1) >= (group.spec.replicas ?? 1)
  const vms = [...condemned, ...earlier].filter(isUnused)
  return vms.length === 0 ? [] : [{ do: 'bindClaims', vms }]
}

function planBudget({ group, budget }: ObservedGroup): GroupAction[] {
  if (group.isTooLarge === true) return []
  const desired = budgetOf(group)
  if (desired === undefined) return budget === undefined ? [] : [{ do: 'deleteBudget', budget }]
  return budget?.revision === revisionOf(desired.spec) ? [] : [{ do: 'applyBudget', budget: desired }]
}

/**
 * The VMs of the group, with those that it adopts and without those that it releases, and the actions for both. It
 * adopts only VMs without a controller, so two groups with overlapping selectors do not fight. A paused group adopts
 * and releases none.
 */
function selectMembers({ group, vms, deleted, rejected, refused: refusedUids }: ObservedGroup): {
  members: readonly Vm[]
  /** Those of the members that could not be adopted. */
  refused: ReadonlySet<Vm>
  claims: GroupAction[]
} {
  const paused = isPaused(group)
  const compiled = compileStoredSelector(group.spec.selector)
  const owner = { kind: 'VirtualMachineGroup', metadata: group.metadata } as const
  const members: Vm[] = []
  const refused = new Set<Vm>()
  const claims: GroupAction[] = []
  const isChosen = ({ metadata }: Vm) => isSelected(compiled, metadata.labels ?? {})
  for (const vm of vms) {
    if (isControlledBy(vm, owner)) {
      if (paused || isTerminating(vm, deleted) || rejected.has(vm.metadata.uid) || isChosen(vm)) members.push(vm)
      else claims.push({ do: 'releaseVm', vm })
    } else if (controllerOf(vm) === undefined && isAdopting(group)) {
      if (isFinished(vm) || isTerminating(vm, deleted) || !isChosen(vm)) continue
      members.push(vm)
      if (refusedUids.has(vm.metadata.uid)) refused.add(vm)
      else claims.push({ do: 'adoptVm', vm })
    }
  }
  return { members, refused, claims }
}

interface Sorted {
  readonly active: readonly Vm[]
  /** How many of them are ready, and how many have another template than the group. */
  readonly ready: number
  readonly outdated: number
  readonly terminating: readonly Vm[]
  readonly finished: readonly Vm[]
  /** The finished VMs that the status of the group does not count yet. */
  readonly uncounted: readonly Vm[]
}

/** A VM that was deleted before it finished did not end on its own: it is neither counted nor reported. */
function sort(members: readonly Vm[], { group, deleted, rejected, revision }: ObservedGroup): Sorted {
  const countedUids = new Set(group.status?.countedUids)
  const sorted = { active: [] as Vm[], terminating: [] as Vm[], finished: [] as Vm[], uncounted: [] as Vm[] }
  let ready = 0
  let outdated = 0
  for (const vm of members) {
    const isEnding = isTerminating(vm, deleted) || rejected.has(vm.metadata.uid)
    if (!isFinished(vm)) {
      if (isEnding) {
        sorted.terminating.push(vm)
        continue
      }
      sorted.active.push(vm)
      if (findCondition(vm.status?.conditions, 'Ready')?.status === 'True') ready++
      if (vm.metadata.annotations?.[templateRevisionAnnotation] !== revision) outdated++
    } else if (countedUids.has(vm.metadata.uid)) sorted.finished.push(vm)
    else if (!isEnding) {
      sorted.finished.push(vm)
      sorted.uncounted.push(vm)
    }
  }
  return { ...sorted, ready, outdated }
}

function reportEnd(vm: Vm): GroupAction {
  const { metadata, status } = vm
  const { phase = 'Failed', reason, message } = status ?? {}
  const words = [reason, message].filter((part) => part !== undefined && part !== '').join(': ')
  const text = `VM ${metadata.name} ended${words === '' ? '' : `: ${words}`}`
  const disruption = disruptionOfVm(vm)
  if (disruption) {
    return { do: 'recordEvent', type: 'Normal', reason: 'Disrupted', message: withCause(text, disruption) }
  }
  return { do: 'recordEvent', type: phase === 'Succeeded' ? 'Normal' : 'Warning', reason: phase, message: text }
}

const withCause = (text: string, { message }: Disruption): string =>
  text.includes(message) ? text : `${text}; ${message}`

const phasesByPriority = ['Running', 'Unknown', 'Scheduled', 'Scheduling', 'Pending']

/** VMs that do not run come first, then the youngest. */
function byPriority(left: Vm, right: Vm): number {
  const rank = ({ status }: Vm) => phasesByPriority.indexOf(status?.phase ?? 'Pending')
  return rank(right) - rank(left) || compare(createdAt(right), createdAt(left)) || compare(nameOf(left), nameOf(right))
}

const rankOf = (group: Group, vm: Vm): number => numberOf(group, vm) ?? Number.MAX_SAFE_INTEGER

/** As a StatefulSet: the highest number first. VMs without a number are from before the group had claims. */
const byNumber =
  (group: Group) =>
  (left: Vm, right: Vm): number =>
    rankOf(group, right) - rankOf(group, left) || byPriority(left, right)

/** The API server writes all of them, in UTC and with seconds, so the text has the order of the time. */
const createdAt = ({ metadata }: Vm): string => metadata.creationTimestamp ?? ''
const nameOf = ({ metadata }: Vm): string => metadata.name
const compare = (left: string, right: string): number => (left < right ? -1 : left > right ? 1 : 0)

function statusOf(observed: ObservedGroup, sorted: Sorted, isMissing: boolean): GroupStatus {
  const { active, ready, outdated, terminating, finished, uncounted } = sorted
  const { group, refusal, now } = observed
  const before = group.status ?? {}
  const observedGeneration = group.metadata.generation ?? 1
  const disrupted = uncounted.filter((vm) => disruptionOfVm(vm) !== undefined).length
  const failed = uncounted.filter(hasFailed).length
  const countedUids = finished.map(({ metadata }) => metadata.uid).toSorted(compare)
  const { countedUids: _countedUids, conditions: _conditions, ...rest } = before
  const conditions = conditionsOf(observed, isMissing ? refusal : undefined, observedGeneration, now)
  return {
    ...rest,
    observedGeneration,
    replicas: active.length + terminating.length,
    readyReplicas: ready,
    availableReplicas: ready,
    outdatedReplicas: outdated,
    succeeded: (before.succeeded ?? 0) + uncounted.length - disrupted - failed,
    failed: (before.failed ?? 0) + failed,
    disrupted: (before.disrupted ?? 0) + disrupted,
    ...(countedUids.length === 0 ? {} : { countedUids }),
    ...(group.isTooLarge === true ? {} : { selector: selectorText(compileStoredSelector(group.spec.selector)) }),
    ...(conditions.length === 0 ? {} : { conditions }),
  }
}

/** As with a ReplicaSet, only a failure or a requested pause has a condition. */
function conditionsOf(
  { group }: ObservedGroup,
  refusal: string | undefined,
  observedGeneration: number,
  now: string,
): NonNullable<GroupStatus['conditions']> {
  const before = group.status?.conditions ?? []
  const failure = { type: 'ReplicaFailure', status: 'True', reason: 'FailedCreate', message: refusal ?? '' } as const
  const why =
    group.isTooLarge === true
      ? { reason: 'SelectorTooLarge', message: 'spec.selector is larger than admission accepts' }
      : { reason: 'Paused', message: 'spec.paused is true' }
  const pause = { type: 'ReplicaPaused', status: 'True', ...why } as const
  const asserted = [...(refusal === undefined ? [] : [failure]), ...(isPaused(group) ? [pause] : [])]
  const unchanged = before.filter(({ type }) => asserted.some((condition) => condition.type === type))
  return asserted.reduce<NonNullable<GroupStatus['conditions']>>(
    (all, condition) => setCondition(all, { ...condition, observedGeneration }, now),
    unchanged,
  )
}

/** A VM that was disrupted from outside, such as by a drain, has not failed. */
const hasFailed = (vm: Vm): boolean => vm.status?.phase === 'Failed' && disruptionOfVm(vm) === undefined

export const isTerminating = ({ metadata }: Vm, deleted: ReadonlySet<string>): boolean =>
  metadata.deletionTimestamp !== undefined || deleted.has(metadata.uid)
