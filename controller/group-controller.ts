import { randomBytes } from 'node:crypto'
import type { VirtualMachineGroup } from '../api/group.ts'
import type { VirtualMachine } from '../api/machine.ts'
import { apiVersion } from '../api/object.ts'
import { controllerOf, isControlledBy, isOwning, machineOf, ownerReference } from '../api/template.ts'
import { revisionOf } from '../presets/compile.ts'
import { compileSelector, isSelected, selectorText } from '../presets/selector.ts'
import { ApiError, isAlreadyExists, unlessNotFound, unlessOutdated } from '../runtime/api-error.ts'
import { createBackOff } from '../runtime/back-off.ts'
import type { BackOff } from '../runtime/back-off.ts'
import { systemClock, timestamp } from '../runtime/clock.ts'
import type { Clock } from '../runtime/clock.ts'
import type { EventRecorder } from '../runtime/events.ts'
import type { KubeClient } from '../runtime/kube.ts'
import type { Logger } from '../runtime/log.ts'
import { createOwnWrites } from '../runtime/own-writes.ts'
import { startReflector } from '../runtime/reflector.ts'
import type { Reflector } from '../runtime/reflector.ts'
import { keyOf, refOf, unchanged, virtualMachineGroups, virtualMachines } from '../runtime/resource.ts'
import type { Persisted } from '../runtime/resource.ts'
import { createStore } from '../runtime/store.ts'
import type { Change } from '../runtime/store.ts'
import { startWorkQueue } from '../runtime/work-queue.ts'
import type { WorkQueue, WorkQueueStatistics } from '../runtime/work-queue.ts'
import { createExpectations } from './group-expectations.ts'
import type { Expectations } from './group-expectations.ts'
import { planGroup } from './group-plan.ts'
import type { GroupAction, ObservedGroup } from './group-plan.ts'

type Group = Persisted<VirtualMachineGroup>
type Machine = Persisted<VirtualMachine>

export interface GroupControllerOptions {
  readonly kube: KubeClient
  readonly machines: Reflector<VirtualMachine>
  readonly events: EventRecorder
  readonly log: Logger
  readonly isLeader: () => boolean
  readonly clock?: Clock
  readonly random?: () => number
  /** Makes names unique: a few lower-case letters and digits. */
  readonly suffix?: () => string
}

/** Keeps as many VMs as groups ask for. */
export interface GroupController {
  readonly groups: Reflector<VirtualMachineGroup>
  lead(): Promise<void>
  statistics(): WorkQueueStatistics | undefined
  stop(): Promise<void>
}

/** What is kept in memory of a group, by its uid. */
interface Memory {
  readonly expectations: Expectations
  readonly backOff: BackOff
  heldUntilMs: number
  refusal: string | undefined
  /** Whether the API server itself, and no cache, has said which VMs there are, since this process leads. */
  isVerified: boolean
}

const concurrency = 4
/** Statuses of VMs change in swarms; the group's follows a moment later, once for all of them. */
const gatherMs = 100
/** Deletions at a time. */
const deletionsAtOnce = 8
/** From a second to five minutes; anew after ten minutes without a failure. */
const backOffMs = { firstMs: 1000, longestMs: 300_000, healthyMs: 600_000 }
/** Of a name; five are for what makes it unique. */
const longestPrefix = 57

export function startGroupController(options: GroupControllerOptions): GroupController {
  const { kube, machines, events, log, isLeader, clock = systemClock, random = Math.random } = options
  const suffix = options.suffix ?? (() => randomBytes(4).toString('hex').slice(0, 5))
  const groups = startReflector({
    kube,
    resource: virtualMachineGroups,
    log,
    clock,
    indexers: { namespace: ({ metadata }) => [metadata.namespace ?? ''] },
  })
  /** VMs by the uid of what controls them, or the namespace where nothing does. */
  const owned = createStore<VirtualMachine, 'owner'>({
    owner: (machine) => [controllerOf(machine)?.uid ?? orphansOf(machine.metadata.namespace)],
  })
  const written = createOwnWrites<VirtualMachineGroup>()
  const memories = new Map<string, Memory>()
  let queue: WorkQueue | undefined
  const stopping = new AbortController()

  const memoryOf = (uid: string): Memory => {
    const known = memories.get(uid) ?? {
      expectations: createExpectations(),
      backOff: createBackOff({ ...backOffMs, clock, random }),
      heldUntilMs: 0,
      refusal: undefined,
      isVerified: false,
    }
    memories.set(uid, known)
    return known
  }

  groups.onChange(({ kind, object }) => {
    if (kind === 'deleted') {
      written.forget(object.metadata)
      memories.delete(object.metadata.uid)
    }
    queue?.add(keyOf(object.metadata))
  })
  machines.onChange((change) => {
    if (change.kind === 'deleted') owned.remove(change.object)
    else owned.put(change.object)
    for (const group of concerned(change)) {
      memories.get(group.metadata.uid)?.expectations.told(change.object, change.kind === 'deleted')
      if (change.kind === 'updated') queue?.addAfter(keyOf(group.metadata), gatherMs)
      else queue?.add(keyOf(group.metadata))
    }
  })

  /** The group that has the VM, or had it before; of one that nobody has, all groups that select it. */
  const concerned = (change: Change<VirtualMachine>): readonly Group[] => {
    const versions = change.kind === 'updated' ? [change.object, change.previous] : [change.object]
    const owners = versions.map(controllerOf).filter((owner) => owner !== undefined && isOwning(owner))
    const { namespace = '', labels = {} } = change.object.metadata
    return groups.store.byIndex('namespace', namespace).filter(({ metadata, spec }) => {
      if (owners.some((owner) => owner?.uid === metadata.uid)) return true
      return controllerOf(change.object) === undefined && isSelected(compileSelector(spec.selector), labels)
    })
  }

  const reconcile = async (key: string): Promise<void> => {
    const cached = groups.store.get(key)
    if (!cached) return
    const group = written.newest(cached)
    const memory = memoryOf(group.metadata.uid)
    await settleDoubts(memory)
    const actions = planGroup(observe(group, memory))
    if (!memory.isVerified && actions.some((action) => action.do === 'create')) {
      await verify(group, memory)
      return perform(key, group, memory, planGroup(observe(group, memory)))
    }
    await perform(key, group, memory, actions)
  }

  const observe = (group: Group, { expectations, heldUntilMs, refusal }: Memory): ObservedGroup => {
    const { uid, namespace } = group.metadata
    const known = [...owned.byIndex('owner', uid), ...owned.byIndex('owner', orphansOf(namespace))]
    const uids = new Set(known.map(({ metadata }) => metadata.uid))
    const unseen = expectations.unseen.filter(({ metadata }) => !uids.has(metadata.uid))
    return {
      group,
      machines: [...known, ...unseen],
      deleted: expectations.deletedUids,
      revision: revisionOf(group.spec.template),
      refusal,
      heldBackMs: Math.max(0, heldUntilMs - clock.monotonic()),
      now: timestamp(clock),
    }
  }

  /** A new leader's cache may lag behind what the last one did: before the first creation, the API server is asked. */
  const verify = async ({ metadata, spec }: Group, memory: Memory): Promise<void> => {
    const labelSelector = selectorText(compileSelector(spec.selector))
    const { namespace } = metadata
    const found = await kube.list(virtualMachines, { labelSelector, ...(namespace === undefined ? {} : { namespace }) })
    for (const machine of found.items) if (isControlledBy(machine, metadata.uid)) noteCreated(machine, memory)
    memory.isVerified = true
  }

  /** Asks for what the watch owes us for too long. */
  const settleDoubts = async ({ expectations }: Memory): Promise<void> => {
    for (const { metadata } of expectations.overdue(clock.monotonic())) {
      const found = await unlessNotFound(kube.get(virtualMachines, refOf(keyOf(metadata))))
      if (found?.metadata.uid !== metadata.uid) expectations.forget(metadata.uid)
      else expectations.created(found, clock.monotonic())
    }
  }

  const noteCreated = (machine: Machine, { expectations }: Memory): void => {
    expectations.settled(machine.metadata.name)
    // The watch may have been quicker than the answer.
    if (machines.store.get(keyOf(machine.metadata))?.metadata.uid === machine.metadata.uid) return
    expectations.created(machine, clock.monotonic())
  }

  const perform = async (key: string, group: Group, memory: Memory, actions: readonly GroupAction[]): Promise<void> => {
    const deletions = actions.flatMap((action) => (action.do === 'delete' ? [action.machine] : []))
    if (actions.some((action) => action.do === 'adopt')) await assertCurrent(group)
    for (const action of actions) {
      if (!isLeader()) throw new Error('no longer leading')
      // Deletions are taken together, at the place of the first.
      if (action.do !== 'delete') await act(key, group, memory, action)
      else if (action.machine === deletions[0]) await removeAll(group, memory, deletions)
    }
  }

  const act = async (
    key: string,
    group: Group,
    memory: Memory,
    action: Exclude<GroupAction, { do: 'delete' }>,
  ): Promise<void> => {
    switch (action.do) {
      case 'adopt':
        return own(action.machine, [...(action.machine.metadata.ownerReferences ?? []), referenceTo(group)])
      case 'release': {
        const { ownerReferences = [] } = action.machine.metadata
        return own(
          action.machine,
          ownerReferences.filter(({ uid }) => uid !== group.metadata.uid),
        )
      }
      case 'write': {
        const body = [...unchanged(group), { op: 'add', path: '/status', value: action.status }]
        const patch = { type: 'json', body } as const
        return written.note(await kube.patch(virtualMachineGroups, refOf(key), patch, { subresource: 'status' }))
      }
      case 'create':
        return createAll(key, group, memory, action.count)
      case 'hold back':
        memory.heldUntilMs = clock.monotonic() + memory.backOff.next()
        return undefined
      case 'again':
        return queue?.addAfter(key, action.afterMs)
      case 'tell':
        return tell(group, action.type, action.reason, action.message)
    }
  }

  const own = async (machine: Machine, ownerReferences: readonly object[]): Promise<void> => {
    const body = [...unchanged(machine), { op: 'add', path: '/metadata/ownerReferences', value: ownerReferences }]
    await kube.patch(virtualMachines, refOf(keyOf(machine.metadata)), { type: 'json', body })
  }

  /** A group that was deleted, and made anew by the same name, must not take in anything under the old uid. */
  const assertCurrent = async ({ metadata }: Group): Promise<void> => {
    const current = await kube.get(virtualMachineGroups, refOf(keyOf(metadata)))
    if (current.metadata.uid !== metadata.uid || current.metadata.deletionTimestamp !== undefined) {
      throw new Error(`the group ${metadata.uid} is gone or going: it takes in nothing`)
    }
  }

  /** One, then two, then four …: what is refused is refused once, not five hundred times. */
  const createAll = async (key: string, group: Group, memory: Memory, count: number): Promise<void> => {
    const doubtful = memory.expectations.doubtfulNames
    const names = [...doubtful, ...Array.from({ length: count }, () => nameOf(group, suffix()))].slice(0, count)
    for (let at = 0, size = 1; at < names.length; at += size, size *= 2) {
      if (!isLeader()) throw new Error('no longer leading')
      const batch = names.slice(at, at + size)
      const outcomes = await Promise.allSettled(batch.map((name) => create(group, memory, name)))
      const failed = outcomes.find((outcome) => outcome.status === 'rejected')
      if (failed !== undefined) return failCreation(key, group, memory, failed.reason)
    }
    memory.refusal = undefined
    if (group.status?.conditions?.some(({ type }) => type === 'ReplicaFailure')) queue?.add(key)
  }

  const create = async (group: Group, memory: Memory, name: string): Promise<void> => {
    memory.expectations.doubted(name)
    const owner = { ...group, kind: 'VirtualMachineGroup' } as const
    const machine = machineOf(owner, name, revisionOf(group.spec.template))
    const generateName = prefixOf(group)
    try {
      const made = await kube.create(virtualMachines, { ...machine, metadata: { ...machine.metadata, generateName } })
      noteCreated(made, memory)
      tell(group, 'Normal', 'SuccessfulCreate', `Created VM ${name}`)
    } catch (error) {
      if (isAlreadyExists(error)) return adoptName(group, memory, name)
      const isKnown = error instanceof ApiError && error.status.code < 500
      if (isKnown) memory.expectations.settled(name)
      throw error
    }
  }

  /** Our own creation of which we had no answer; or, once in a great while, somebody else's VM by a name that we drew. */
  const adoptName = async (group: Group, memory: Memory, name: string): Promise<void> => {
    const { namespace } = group.metadata
    const found = await kube.get(virtualMachines, namespace === undefined ? { name } : { namespace, name })
    memory.expectations.settled(name)
    if (isControlledBy(found, group.metadata.uid)) noteCreated(found, memory)
  }

  const failCreation = (key: string, group: Group, memory: Memory, error: unknown): void => {
    if (!(error instanceof ApiError)) throw error
    const message = firstCause(error)
    memory.refusal = message
    memory.heldUntilMs = clock.monotonic() + memory.backOff.next()
    tell(group, 'Warning', 'FailedCreate', message)
    // Once to say so in the status; that round finds out when to try again.
    queue?.add(key)
  }

  const removeAll = async (group: Group, memory: Memory, all: readonly Machine[]): Promise<void> => {
    for (let at = 0; at < all.length; at += deletionsAtOnce) {
      if (!isLeader()) throw new Error('no longer leading')
      await Promise.all(all.slice(at, at + deletionsAtOnce).map((machine) => removeOne(group, memory, machine)))
    }
  }

  const removeOne = async (group: Group, { expectations }: Memory, { metadata }: Machine): Promise<void> => {
    const { uid, name } = metadata
    await unlessNotFound(kube.delete(virtualMachines, refOf(keyOf(metadata)), { uid }))
    const cached = machines.store.get(keyOf(metadata))
    if (cached?.metadata.uid === uid && cached.metadata.deletionTimestamp === undefined) expectations.deleted(uid)
    tell(group, 'Normal', 'SuccessfulDelete', `Deleted VM ${name}`)
  }

  const tell = ({ metadata }: Group, type: 'Normal' | 'Warning', reason: string, message: string): void => {
    const regarding = { apiVersion, kind: 'VirtualMachineGroup', ...refOf(keyOf(metadata)), uid: metadata.uid }
    events.record({ regarding, type, reason, message })
  }

  return {
    groups,
    async lead() {
      await Promise.all([groups.synced(), machines.synced(stopping.signal)])
      stopping.signal.throwIfAborted()
      queue = startWorkQueue({ reconcile: unlessOutdated(reconcile), concurrency, log, clock })
      for (const { metadata } of groups.store.list()) queue.add(keyOf(metadata))
    },
    statistics: () => queue?.statistics(),
    async stop() {
      stopping.abort(new Error('stopped'))
      await queue?.drain()
      await groups.stop()
    },
  }
}

const orphansOf = (namespace = ''): string => `orphans of ${namespace}`

const prefixOf = ({ metadata }: Group): string => `${metadata.name.slice(0, longestPrefix)}-`

const nameOf = (group: Group, suffix: string): string => `${prefixOf(group)}${suffix}`

const referenceTo = (group: Group) => ownerReference({ kind: 'VirtualMachineGroup', metadata: group.metadata })

function firstCause({ status }: ApiError): string {
  const [cause, ...more] = status.details?.causes ?? []
  if (cause === undefined) return status.message
  const rest = more.length === 0 ? '' : ` (and ${more.length} more)`
  return `${cause.field === undefined ? '' : `${cause.field}: `}${cause.message ?? ''}${rest}`
}
