import { randomBytes } from 'node:crypto'
import { isDeepStrictEqual } from 'node:util'
import { controllerOf, isControlledBy, isOwning } from '../api/template.ts'
import { isFinished } from '../api/virtual-machine.ts'
import type { VirtualMachine } from '../api/virtual-machine.ts'
import { unlessNotFound } from '../runtime/api-error.ts'
import { timestamp } from '../runtime/clock.ts'
import { startReflector } from '../runtime/reflector.ts'
import type { Reflector } from '../runtime/reflector.ts'
import { keyOf, refOf, resource, virtualMachineGroups } from '../runtime/resource.ts'
import type { Persisted } from '../runtime/resource.ts'
import { createStore } from '../runtime/store.ts'
import { startWorkQueue } from '../runtime/work-queue.ts'
import type { WorkQueueStatistics } from '../runtime/work-queue.ts'
import type { CommonAction } from './action.ts'
import { createAdoptableVms } from './adoptable-vms.ts'
import { budgets, cachedBudgets, groupUidLabel, slimBudget } from './budget.ts'
import type { Budget, CachedBudget } from './budget.ts'
import { overdueMs } from './group-expectations.ts'
import { createGroupIndex, isAdoptable, isToAdopt, ownersOf } from './group-index.ts'
import { createGroupMemory } from './group-memory.ts'
import type { GroupMemory } from './group-memory.ts'
import { isTerminating, planGroup } from './group-plan.ts'
import type { GroupAction, ObservedGroup } from './group-plan.ts'
import { createGroupVms } from './group-vms.ts'
import { gatherMs as labelsGatherMs, isLabelling } from './labelling.ts'
import { createLoop } from './loop.ts'
import type { ControllerContext } from './loop.ts'
import { createPassDeadline } from './pass-deadline.ts'
import { groupSlimmer, readOwner } from './slim-owner.ts'
import type { CachedGroup } from './slim-owner.ts'

type Group = Persisted<CachedGroup>
type Vm = Persisted<VirtualMachine>
type OwnAction =
  | Exclude<GroupAction, CommonAction<unknown>>
  /** This process has written the first status of the group. */
  | { readonly do: 'noteFirstStatus' }

interface GroupControllerOptions extends ControllerContext {
  readonly vms: Reflector<VirtualMachine>
  readonly random?: () => number
  /** Makes names unique: a few lower-case letters and digits. */
  readonly suffix?: () => string
}

/** Maintains the number of VMs that each group requests. */
interface GroupController {
  readonly groups: Reflector<CachedGroup>
  readonly budgets: Reflector<CachedBudget>
  lead(): Promise<void>
  statistics(): WorkQueueStatistics | undefined
  stop(): Promise<void>
}

const { accepts: _accepts, ...kind } = virtualMachineGroups
const cachedGroups = resource<CachedGroup>({ ...kind, read: readOwner })

const concurrency = 4
/** Statuses of VMs change in bursts; the status of the group follows once for all of them. */
const gatherMs = 100
const youngMs = 10_000
/** After the time of the next attempt to adopt a VM, which may not exist any more. */
const forgetRefusalMs = 600_000
export function startGroupController(options: GroupControllerOptions): GroupController {
  const { kube, vms, log, clock, random = Math.random } = options
  const { slim, forget } = groupSlimmer()
  const groups = startReflector({
    kube,
    resource: cachedGroups,
    log,
    clock,
    slim,
  })
  const budgetCache = startReflector({
    kube,
    resource: cachedBudgets,
    log,
    clock,
    labelSelector: groupUidLabel,
    slim: slimBudget,
  })
  /** VMs by namespace and the uid of the config or group that controls them; `nothing` for those that groups adopt. */
  const owned = createStore<VirtualMachine, 'owner'>({
    owner: (vm) => {
      if (isAdoptable(vm)) return [ownedBy(vm.metadata.namespace, 'nothing')]
      const owner = controllerOf(vm)
      return owner !== undefined && isOwning(owner) ? [ownedBy(vm.metadata.namespace, owner.uid)] : []
    },
  })
  const memories = new Map<string, GroupMemory>()
  /** The keys of the groups that count a VM which they could not adopt, by its uid. Nothing else leads to them. */
  const refusing = new Map<string, ReadonlySet<string>>()

  const memoryOf = ({ metadata: { uid }, status }: Group): GroupMemory => {
    const known = memories.get(uid) ?? createGroupMemory(status, clock, random)
    memories.set(uid, known)
    return known
  }

  const forgetVm = ({ metadata: { uid } }: Vm, memory: GroupMemory | undefined): void => {
    memory?.scaledIn.delete(uid)
    memory?.rejected.delete(uid)
  }

  const index = createGroupIndex()
  const adoptableVms = createAdoptableVms({
    free: (namespace) => owned.byIndex('owner', ownedBy(namespace, 'nothing')),
    get: (key) => owned.get(key),
  })
  /**
   * Finds the groups that could adopt a VM, by the key of the VM. Namespaces take turns, since a tenant can have
   * thousands of groups and change labels many times a second.
   */
  const adoptable = startWorkQueue({
    reconcile: (key) => {
      const vm = vms.store.get(key)
      if (vm === undefined || !isAdoptable(vm)) return Promise.resolve()
      for (const group of index.adopting(vm)) {
        adoptableVms.found(group, vm)
        loop.add(group)
      }
      return Promise.resolve()
    },
    concurrency: 1,
    groups: { of: (key) => refOf(key).namespace ?? '', concurrency: 1 },
    log,
    clock,
  })

  groups.onChange((change) => {
    const { kind, object } = change
    index.update(change)
    adoptableVms.update(change)
    if (kind === 'deleted') {
      loop.forget(object.metadata)
      forget(object.metadata.uid)
      memories.delete(object.metadata.uid)
    }
    if (isLabelling(change)) loop.addAfter(keyOf(object.metadata), labelsGatherMs)
    else loop.add(keyOf(object.metadata))
  })
  budgetCache.onChange(({ object }) => loop.add(keyOf(object.metadata)))
  vms.onChange((change) => {
    if (change.kind === 'deleted') owned.remove(change.object)
    else owned.put(change.object)
    for (const uid of ownersOf(change)) {
      const group = index.owning(change.object, uid)
      if (group === undefined) continue
      memories.get(uid)?.expectations.observed(change.object, change.kind === 'deleted')
      if (change.kind === 'deleted') forgetVm(change.object, memories.get(uid))
      if (change.kind === 'updated') loop.addAfter(group, gatherMs)
      else loop.add(group)
    }
    if (isToAdopt(change)) adoptable.add(keyOf(change.object.metadata))
    const { uid } = change.object.metadata
    const counting = refusing.get(uid)
    if (counting === undefined) return
    const isGone = change.kind === 'deleted' || controllerOf(change.object) !== undefined
    if (isGone) refusing.delete(uid)
    const isRelabelled =
      change.kind === 'updated' && !isDeepStrictEqual(change.object.metadata.labels, change.previous.metadata.labels)
    if (!isGone && !isFinished(change.object) && !isRelabelled) return
    for (const key of counting) loop.addAfter(key, gatherMs)
  })

  const reconcile = async (key: string): Promise<void> => {
    const cached = groups.store.get(key)
    if (!cached) return
    const group = loop.newest(cached)
    const memory = memoryOf(group)
    await members.resolveOverdue(memory)
    members.resolveUncertain(group, memory)
    const first = planGroup(observe(group, memory))
    const isNew = group.status === undefined
    const isVerifying = !isNew && !memory.isVerified && first.some((action) => action.do === 'createVms')
    if (isVerifying) await members.verify(group, memory)
    const planned = isVerifying ? planGroup(observe(group, memory)) : first
    const actions = isNew ? planned.flatMap(withNote) : planned
    if (actions.some((action) => action.do === 'adoptVm')) await members.wholeOf(group)
    const target = { resource: cachedGroups, object: group }
    const deadline = createPassDeadline(clock)
    /** Whether something is left to the next pass. */
    let isLeft = false
    await loop.perform(target, actions, async (action: OwnAction) => {
      const isClaim = action.do === 'adoptVm' || action.do === 'releaseVm'
      // What follows the claims was planned as if all of them succeeded.
      if (isClaim ? deadline.isOver() : isLeft && action.do !== 'backOff') {
        isLeft = true
        return []
      }
      if (action.do !== 'adoptVm') return act(group, memory, action)
      if (await members.adopt(group, memory, action.vm)) return undefined
      isLeft = true
      const { uid } = action.vm.metadata
      const isCached = vms.store.get(keyOf(action.vm.metadata))?.metadata.uid === uid
      if (isCached) refusing.set(uid, new Set([...(refusing.get(uid) ?? []), key]))
      return undefined
    })
    if (isLeft) loop.addAfter(key, gatherMs)
    // No change of a VM without an owner leads to a pass, except that of its labels.
    const nowMs = clock.monotonic()
    const nextMs = Math.min(
      ...[...memory.refused.values()].map(({ againAtMs }) => againAtMs - nowMs).filter((ms) => ms > 0),
    )
    if (nextMs < Infinity) loop.addAfter(key, nextMs)
    // The watch may have delivered the end of one before it was noted.
    if (memory.expectations.unseen.length > 0) loop.addAfter(key, overdueMs)
  }

  const observe = (group: Group, memory: GroupMemory): ObservedGroup => {
    const { expectations, created, rejected, refused, scaledIn, backOffUntilMs, refusal } = memory
    const nowMs = clock.monotonic()
    for (const [vm, atMs] of created) if (nowMs - atMs >= youngMs) created.delete(vm)
    for (const [vm, { againAtMs }] of refused) if (nowMs - againAtMs >= forgetRefusalMs) refused.delete(vm)
    const { uid, namespace } = group.metadata
    const owner = { kind: 'VirtualMachineGroup', metadata: group.metadata } as const
    const isSeen = ({ metadata }: Vm) => owned.get(keyOf(metadata))?.metadata.uid === metadata.uid
    const budget = budgetCache.store.get(keyOf(group.metadata))
    const unseen = expectations.unseen.filter((vm) => !isSeen(vm))
    const own = [...owned.byIndex('owner', ownedBy(namespace, uid)), ...unseen]
    // The deletion of one that is active has failed: if another one ends, it stays.
    for (const vm of own) if (!isTerminating(vm, expectations.deletedUids)) scaledIn.delete(vm.metadata.uid)
    return {
      group,
      vms: [...own, ...adoptableVms.of(group)],
      deleted: expectations.deletedUids,
      rejected,
      refused: { has: (vm) => (refused.get(vm)?.againAtMs ?? 0) > nowMs },
      young: created,
      scaledIn,
      // Others can name the group as the owner of a budget, also in another namespace.
      budget: budget !== undefined && isControlledBy(budget, owner) ? budget : undefined,
      revision: group.revision ?? '',
      refusal,
      backOffMs: Math.max(0, backOffUntilMs - nowMs),
      now: timestamp(clock),
    }
  }

  const act = async (
    group: Group,
    memory: GroupMemory,
    action: Exclude<OwnAction, { readonly do: 'adoptVm' }>,
  ): Promise<readonly never[] | undefined> => {
    switch (action.do) {
      case 'releaseVm':
        return members.release(group, memory, action.vm)
      case 'createVms':
        return members.createAll(group, memory, action)
      case 'deleteVms':
        return members.deleteAll(group, memory, action.vms)
      case 'scaleIn':
        return members.scaleIn(group, memory, action.vms)
      case 'bindClaims':
        return members.bindAll(group, memory, action.vms)
      case 'noteFirstStatus':
        memory.isVerified = true
        return undefined
      case 'backOff':
        memory.backOffUntilMs = clock.monotonic() + memory.backOff.next()
        return undefined
      case 'applyBudget':
        return applyBudget(group, action.budget)
      case 'deleteBudget': {
        const { uid } = action.budget.metadata
        await unlessNotFound(kube.delete(budgets, refOf(keyOf(action.budget.metadata)), { uid }))
        return undefined
      }
    }
  }

  /** A budget of this name that the group does not own is its user's, and stays. */
  const applyBudget = async (group: Group, budget: Budget): Promise<undefined> => {
    const ref = refOf(keyOf(group.metadata))
    const found = await unlessNotFound(kube.get(budgets, ref))
    if (found !== undefined && !isControlledBy(found, { kind: 'VirtualMachineGroup', metadata: group.metadata })) {
      const message = `The PodDisruptionBudget ${ref.name} does not belong to this group; spec.minAvailable has no effect`
      return record(group, 'Warning', 'BudgetNameTaken', message)
    }
    await kube.patch(budgets, ref, { type: 'apply', body: budget, fieldManager: 'virtset-controller', force: true })
    return undefined
  }

  const record = (group: Group, type: 'Normal' | 'Warning', reason: string, message: string): undefined => {
    loop.recordEvent({ resource: cachedGroups, object: group }, type, reason, message)
  }

  const members = createGroupVms({
    kube,
    clock,
    cachedVm: (key) => vms.store.get(key),
    suffix: options.suffix ?? (() => randomBytes(4).toString('hex').slice(0, 5)),
    assertLeading: () => loop.assertLeading(),
    again: ({ metadata }) => loop.add(keyOf(metadata)),
    record: (group, ...event) => record(group, ...event),
  })

  const loop = createLoop<CachedGroup>({
    ...options,
    slim,
    reconcile,
    keys: () => groups.store.list().map(({ metadata }) => keyOf(metadata)),
    caches: [groups, budgetCache, vms],
    concurrency,
  })

  return {
    groups,
    budgets: budgetCache,
    lead: () => loop.lead(),
    statistics: () => loop.statistics(),
    async stop() {
      await Promise.all([loop.stop(), adoptable.drain()])
      await Promise.all([groups.stop(), budgetCache.stop()])
    },
  }
}

const withNote = (action: GroupAction): readonly (GroupAction | OwnAction)[] =>
  action.do === 'updateStatus' ? [action, { do: 'noteFirstStatus' }] : [action]

const ownedBy = (namespace = '', owner: string): string => `${namespace}/${owner}`
