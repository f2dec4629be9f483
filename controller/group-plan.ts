import { isDeepStrictEqual } from 'node:util'
import type { GroupStatus, VirtualMachineGroup } from '../api/group.ts'
import { isFinished } from '../api/machine.ts'
import type { VirtualMachine } from '../api/machine.ts'
import { controllerOf, isControlledBy, templateRevisionAnnotation } from '../api/template.ts'
import { compileSelector, isSelected, selectorText } from '../presets/selector.ts'
import { findCondition, setCondition } from '../runtime/condition.ts'
import type { Persisted } from '../runtime/resource.ts'

type Group = Persisted<VirtualMachineGroup>
type Machine = Persisted<VirtualMachine>

export interface ObservedGroup {
  readonly group: Group
  /** VMs of the namespace that the group controls or nobody does; those that were made a moment ago are among them, whether the watch has told of them or not. */
  readonly machines: readonly Machine[]
  /** Uids of VMs whose deletion was asked for, whether the watch has told of it or not. */
  readonly deleted: ReadonlySet<string>
  /** The hash of the template as it is now. */
  readonly revision: string
  /** Why the API server took no VM the last time; undefined when it did. */
  readonly refusal: string | undefined
  /** For how long nothing is to be created, after failures. */
  readonly heldBackMs: number
  /** RFC 3339. */
  readonly now: string
}

export type GroupAction =
  | { readonly do: 'adopt'; readonly machine: Machine }
  | { readonly do: 'release'; readonly machine: Machine }
  | { readonly do: 'write'; readonly status: GroupStatus }
  | { readonly do: 'create'; readonly count: number }
  | { readonly do: 'delete'; readonly machine: Machine }
  /** A VM has failed: wait longer before the next one is made. */
  | { readonly do: 'hold back' }
  | { readonly do: 'again'; readonly afterMs: number }
  | { readonly do: 'tell'; readonly type: 'Normal' | 'Warning'; readonly reason: string; readonly message: string }

/** After a failure, to find out how long nothing is to be created. */
const soonMs = 1
/** VMs made in one round; the rest comes with the next one. As client-go's ReplicaSets. */
const mostAtOnce = 500

/**
 * What to do for a group, in this order.
 *
 * Never more VMs than asked for, so that one that is ending counts until it is gone: two of them may not have the same disks. Whatever has finished by itself is counted in
 * the status, with its uid, before it is deleted: it counts once, whoever dies in between.
 */
export function planGroup(observed: ObservedGroup): GroupAction[] {
  const { group, deleted, heldBackMs } = observed
  if (group.metadata.deletionTimestamp !== undefined) return []
  const members = membersOf(observed)
  const { active, ending, finished } = sort(members, observed)
  const { replicas: wanted = 1, paused = false } = group.spec
  const missing = Math.max(0, wanted - active.length - ending.length)
  const status = statusOf(observed, { active, ending, finished }, missing > 0 && !paused)
  const write: GroupAction[] = isDeepStrictEqual(status, group.status) ? [] : [{ do: 'write', status }]
  if (paused) return write
  const fresh = finished.filter((machine) => !isCounted(group, machine))
  const surplus = active.toSorted(worthLess).slice(0, Math.max(0, active.length - wanted))
  return [
    ...claims(observed),
    ...write,
    ...fresh.flatMap(tellEnd),
    ...finished.filter((machine) => !isEnding(machine, deleted)).map(remove),
    ...surplus.map(remove),
    ...(missing === 0 ? [] : create(missing, fresh.some(hasFailed) ? soonMs : heldBackMs)),
  ]
}

const create = (missing: number, heldBackMs: number): GroupAction[] =>
  heldBackMs > 0 ? [{ do: 'again', afterMs: heldBackMs }] : [{ do: 'create', count: Math.min(missing, mostAtOnce) }]

const remove = (machine: Machine): GroupAction => ({ do: 'delete', machine })

/** Only what nobody controls is taken in, so two groups with overlapping selectors do not fight. */
function claims(observed: ObservedGroup): GroupAction[] {
  const { group, machines, deleted } = observed
  const members = membersOf(observed)
  return machines.flatMap((machine): GroupAction[] => {
    const isOwn = isControlledBy(machine, group.metadata.uid)
    if (isOwn && !members.includes(machine) && !isEnding(machine, deleted)) return [{ do: 'release', machine }]
    return !isOwn && members.includes(machine) ? [{ do: 'adopt', machine }] : []
  })
}

/** Those of the group, and those that it takes in; not those that it lets go. A paused group changes nothing about whose a VM is. */
function membersOf({ group, machines, deleted }: ObservedGroup): readonly Machine[] {
  const { selector, paused = false } = group.spec
  const compiled = compileSelector(selector)
  return machines.filter((machine) => {
    if (isControlledBy(machine, group.metadata.uid)) {
      return paused || isEnding(machine, deleted) || isSelected(compiled, machine.metadata.labels ?? {})
    }
    if (controllerOf(machine) !== undefined || paused) return false
    const isAlive = !isFinished(machine) && !isEnding(machine, deleted)
    return isAlive && isSelected(compiled, machine.metadata.labels ?? {})
  })
}

interface Sorted {
  readonly active: readonly Machine[]
  readonly ending: readonly Machine[]
  readonly finished: readonly Machine[]
}

/** What was deleted before it was finished has not ended by itself: that is neither counted nor told. */
function sort(members: readonly Machine[], { group, deleted }: ObservedGroup): Sorted {
  const unfinished = members.filter((machine) => !isFinished(machine))
  return {
    active: unfinished.filter((machine) => !isEnding(machine, deleted)),
    ending: unfinished.filter((machine) => isEnding(machine, deleted)),
    finished: members.filter(
      (machine) => isFinished(machine) && (isCounted(group, machine) || !isEnding(machine, deleted)),
    ),
  }
}

function tellEnd({ metadata, status }: Machine): GroupAction[] {
  const { phase = 'Failed', reason, message } = status ?? {}
  const words = [reason, message].filter((part) => part !== undefined && part !== '').join(': ')
  const text = `VM ${metadata.name} has ended${words === '' ? '' : `: ${words}`}`
  if (phase === 'Succeeded') return [{ do: 'tell', type: 'Normal', reason: phase, message: text }]
  return [{ do: 'tell', type: 'Warning', reason: phase, message: text }, { do: 'hold back' }]
}

const furthest = ['Running', 'Unknown', 'Scheduled', 'Scheduling', 'Pending']

/** Not running first, then the youngest. */
function worthLess(left: Machine, right: Machine): number {
  const rank = ({ status }: Machine) => furthest.indexOf(status?.phase ?? 'Pending')
  const age = ({ metadata }: Machine) => Date.parse(metadata.creationTimestamp ?? '') || 0
  return rank(right) - rank(left) || age(right) - age(left) || (left.metadata.name < right.metadata.name ? -1 : 1)
}

function statusOf(observed: ObservedGroup, { active, ending, finished }: Sorted, isMissing: boolean): GroupStatus {
  const { group, revision, refusal, now } = observed
  const before = group.status ?? {}
  const observedGeneration = group.metadata.generation ?? 1
  const ready = active.filter(({ status }) => findCondition(status?.conditions, 'Ready')?.status === 'True').length
  const fresh = finished.filter((machine) => !isCounted(group, machine))
  const succeeded = fresh.filter(({ status }) => status?.phase === 'Succeeded').length
  const isOutdated = ({ metadata }: Machine) => metadata.annotations?.[templateRevisionAnnotation] !== revision
  const countedUids = finished.map(({ metadata }) => metadata.uid).toSorted()
  const { countedUids: _before, conditions: _then, ...rest } = before
  const conditions = conditionsOf(observed, isMissing ? refusal : undefined, observedGeneration, now)
  return {
    ...rest,
    observedGeneration,
    replicas: active.length + ending.length,
    readyReplicas: ready,
    availableReplicas: ready,
    outdatedReplicas: active.filter(isOutdated).length,
    succeeded: (before.succeeded ?? 0) + succeeded,
    failed: (before.failed ?? 0) + fresh.length - succeeded,
    ...(countedUids.length === 0 ? {} : { countedUids }),
    selector: selectorText(compileSelector(group.spec.selector)),
    ...(conditions.length === 0 ? {} : { conditions }),
  }
}

/** Only what is wrong, or asked for, has a condition; as a ReplicaSet's. */
function conditionsOf(
  { group }: ObservedGroup,
  refusal: string | undefined,
  observedGeneration: number,
  now: string,
): NonNullable<GroupStatus['conditions']> {
  const before = group.status?.conditions ?? []
  const failure = { type: 'ReplicaFailure', status: 'True', reason: 'FailedCreate', message: refusal ?? '' } as const
  const pause = { type: 'ReplicaPaused', status: 'True', reason: 'Paused', message: 'spec.paused is true' } as const
  const wanted = [...(refusal === undefined ? [] : [failure]), ...(group.spec.paused === true ? [pause] : [])]
  const kept = before.filter(({ type }) => wanted.some((condition) => condition.type === type))
  return wanted.reduce<NonNullable<GroupStatus['conditions']>>(
    (all, condition) => setCondition(all, { ...condition, observedGeneration }, now),
    kept,
  )
}

const hasFailed = ({ status }: Machine): boolean => status?.phase === 'Failed'

const isEnding = ({ metadata }: Machine, deleted: ReadonlySet<string>): boolean =>
  metadata.deletionTimestamp !== undefined || deleted.has(metadata.uid)

const isCounted = ({ status }: Group, { metadata }: Machine): boolean =>
  status?.countedUids?.includes(metadata.uid) === true
