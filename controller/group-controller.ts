import { randomBytes } from 'node:crypto'
import { templateWithClaims } from '../api/claim-template.ts'
import type { VirtualMachineGroup } from '../api/group.ts'
import type { OwnerReference } from '../api/object.ts'
import {
  controllerOf,
  isControlledBy,
  isOwning,
  ownerReference,
  templateRevisionAnnotation,
  virtualMachineOf,
} from '../api/template.ts'
import { isFinished } from '../api/virtual-machine.ts'
import type { VirtualMachine } from '../api/virtual-machine.ts'
import { revisionOf } from '../presets/compile.ts'
import { compileStoredSelector, isSelected, selectorText } from '../presets/selector.ts'
import type { Selector } from '../presets/selector.ts'
import { ApiError, isAlreadyExists, isConflict, isNotFound, unlessNotFound } from '../runtime/api-error.ts'
import { createBackOff } from '../runtime/back-off.ts'
import type { BackOff } from '../runtime/back-off.ts'
import { timestamp } from '../runtime/clock.ts'
import { pageSize, readEach } from '../runtime/pages.ts'
import { startReflector } from '../runtime/reflector.ts'
import type { Reflector } from '../runtime/reflector.ts'
import { keyOf, refOf, resource, unchanged, virtualMachineGroups, virtualMachines } from '../runtime/resource.ts'
import type { Persisted } from '../runtime/resource.ts'
import { pick, slimMap, slimMetadata } from '../runtime/slim.ts'
import { createStore } from '../runtime/store.ts'
import { startWorkQueue } from '../runtime/work-queue.ts'
import type { WorkQueueStatistics } from '../runtime/work-queue.ts'
import type { CommonAction } from './action.ts'
import { createAdoptableVms } from './adoptable-vms.ts'
import { budgets, cachedBudgets, groupUidLabel, slimBudget } from './budget.ts'
import type { Budget, CachedBudget } from './budget.ts'
import { createGroupIndex, isAdoptable, isToAdopt, ownersOf } from './group-index.ts'
import { createExpectations } from './group-expectations.ts'
import type { Expectations } from './group-expectations.ts'
import { vmPrefix } from './group-claims.ts'
import { maxBindings, planGroup } from './group-plan.ts'
import type { GroupAction, ObservedGroup } from './group-plan.ts'
import { gatherMs as labelsGatherMs, isLabelling } from './labelling.ts'
import { createLoop } from './loop.ts'
import type { ControllerContext } from './loop.ts'
import { createPassDeadline } from './pass-deadline.ts'
import type { PassDeadline } from './pass-deadline.ts'
import { groupSlimmer, readOwner } from './slim-owner.ts'
import type { CachedGroup } from './slim-owner.ts'
import { UnselectedVm, whyNeverSelected, whyUnselected } from './unselected.ts'
import { ClaimEnding, bindClaims, createClaims } from './vm-claims.ts'

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

/** The state of a group that only this process has. */
interface Memory {
  readonly expectations: Expectations
  /** The VMs that this process created less than `youngMs` ago, by uid, with the time. */
  readonly created: Map<string, number>
  readonly backOff: BackOff
  backOffUntilMs: number
  refusal: string | undefined
  /** Whether to ask with a dry run before a VM is created: the last one would have to be deleted. */
  asksFirst: boolean
  /** Uids of VMs that admission gave labels that the group does not select, until they are gone. */
  readonly rejected: Set<string>
  /** Uids of VMs whose claims are deleted with them. */
  readonly boundVms: Set<string>
  /** Whether this process knows all VMs that former leaders created for the group, also those that its cache lacks. */
  isVerified: boolean
}

const { accepts: _accepts, ...kind } = virtualMachineGroups
const cachedGroups = resource<CachedGroup>({ ...kind, read: readOwner })

const concurrency = 4
/** Statuses of VMs change in bursts; the status of the group follows once for all of them. */
const gatherMs = 100
/** Creations at a time. They have no more connections, and a pass can end only between two batches. */
const creationsAtOnce = 8
/** Deletions at a time. */
const deletionsAtOnce = 8
const youngMs = 10_000
/** After an adoption of a VM that has changed or gone, until the watch has delivered that. */
const adoptAgainMs = 1000
/** From a second to five minutes; reset after ten minutes without a failure. */
const backOffMs = { firstMs: 1000, longestMs: 300_000, healthyMs: 600_000 }

export function startGroupController(options: GroupControllerOptions): GroupController {
  const { kube, vms, log, clock, random = Math.random } = options
  const suffix = options.suffix ?? (() => randomBytes(4).toString('hex').slice(0, 5))
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
  const memories = new Map<string, Memory>()

  const memoryOf = ({ metadata: { uid }, status }: Group): Memory => {
    // What the last leader could not create, a new one does not create only to delete it.
    const failure = status?.conditions?.find(({ type }) => type === 'ReplicaFailure')
    const known = memories.get(uid) ?? {
      expectations: createExpectations(),
      created: new Map(),
      backOff: createBackOff({ ...backOffMs, clock, random }),
      backOffUntilMs: 0,
      refusal: failure?.message,
      asksFirst: failure !== undefined,
      rejected: new Set(),
      boundVms: new Set(),
      isVerified: false,
    }
    memories.set(uid, known)
    return known
  }

  const forgetVm = ({ metadata: { uid } }: Vm, memory: Memory | undefined): void => {
    memory?.boundVms.delete(uid)
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
  })

  const reconcile = async (key: string): Promise<void> => {
    const cached = groups.store.get(key)
    if (!cached) return
    const group = loop.newest(cached)
    const memory = memoryOf(group)
    await resolveOverdue(memory)
    resolveUncertain(group, memory)
    const first = planGroup(observe(group, memory))
    const isNew = group.status === undefined
    const isVerifying = !isNew && !memory.isVerified && first.some((action) => action.do === 'createVms')
    if (isVerifying) await verify(group, memory)
    const planned = isVerifying ? planGroup(observe(group, memory)) : first
    const actions = isNew ? planned.flatMap(withNote) : planned
    if (actions.some((action) => action.do === 'adoptVm')) await wholeOf(group)
    const target = { resource: cachedGroups, object: group }
    /** By the uid of the VM that could not be adopted. It counts as a member. */
    const failures = new Map<string, ApiError>()
    // As many fewer are too many as could not be adopted.
    const stillToDelete = (all: readonly Vm[]): readonly Vm[] => {
      const isSurplus = (vm: Vm) => !isFinished(vm) && !memory.rejected.has(vm.metadata.uid)
      const most = all.filter(isSurplus).length - failures.size
      const surplus = all.filter((vm) => isSurplus(vm) && !failures.has(vm.metadata.uid))
      return [...all.filter((vm) => !isSurplus(vm)), ...surplus.slice(0, Math.max(0, most))]
    }
    await loop.perform(target, actions, async (action: OwnAction) => {
      if (action.do === 'deleteVms') return deleteAll(group, memory, stillToDelete(action.vms))
      if (action.do !== 'adoptVm') return act(key, group, memory, action)
      return adopt(group, action.vm).catch((error: unknown) => {
        if (!(error instanceof ApiError)) throw error
        failures.set(action.vm.metadata.uid, error)
        return undefined
      })
    })
    const [failure] = [...failures.values()].filter((error) => !isConflict(error) && !isNotFound(error))
    if (failure !== undefined) throw failure
    // No change of a VM without an owner leads to a pass, except that of its labels.
    if (failures.size > 0) loop.addAfter(key, adoptAgainMs)
  }

  const observe = (group: Group, memory: Memory): ObservedGroup => {
    const { expectations, created, rejected, backOffUntilMs, refusal } = memory
    for (const [vm, atMs] of created) if (clock.monotonic() - atMs >= youngMs) created.delete(vm)
    const { uid, namespace } = group.metadata
    const owner = { kind: 'VirtualMachineGroup', metadata: group.metadata } as const
    const isSeen = ({ metadata }: Vm) => owned.get(keyOf(metadata))?.metadata.uid === metadata.uid
    const budget = budgetCache.store.get(keyOf(group.metadata))
    const unseen = expectations.unseen.filter((vm) => !isSeen(vm))
    return {
      group,
      vms: [...owned.byIndex('owner', ownedBy(namespace, uid)), ...adoptableVms.of(group), ...unseen],
      deleted: expectations.deletedUids,
      rejected,
      young: created,
      // Others can name the group as the owner of a budget, also in another namespace.
      budget: budget !== undefined && isControlledBy(budget, owner) ? budget : undefined,
      revision: group.revision ?? '',
      refusal,
      backOffMs: Math.max(0, backOffUntilMs - clock.monotonic()),
      now: timestamp(clock),
    }
  }

  /**
   * The cache of a new leader may lag behind the writes of the last one, so VMs are read from the API server before the
   * first creation. Not for a group of which this process has written the first status: each leader does that before it
   * creates a VM, and the write fails if another one was first. Otherwise, each group that a tenant creates would cost a
   * read of all VMs that it selects.
   */
  const verify = async ({ metadata, spec }: Group, memory: Memory): Promise<void> => {
    const labelSelector = selectorText(compileStoredSelector(spec.selector))
    const { namespace } = metadata
    const scope = { labelSelector, limit: pageSize, ...(namespace === undefined ? {} : { namespace }) }
    await readEach(kube, virtualMachines, scope, (vm) => {
      if (isControlledBy(vm, { kind: 'VirtualMachineGroup', metadata })) noteCreated(vm, memory)
    })
    memory.isVerified = true
  }

  /** Reads the VMs that the watch should have delivered long ago. */
  const resolveOverdue = async ({ expectations, rejected }: Memory): Promise<void> => {
    for (const { metadata } of expectations.overdue(clock.monotonic())) {
      const found = await unlessNotFound(kube.get(virtualMachines, refOf(keyOf(metadata))))
      if (found?.metadata.uid !== metadata.uid) {
        expectations.forget(metadata.uid)
        rejected.delete(metadata.uid)
      } else expectations.created(slimMember(found), clock.monotonic())
    }
  }

  /** Looks for the VMs that were created without a response: another pass must not take one for a former member. */
  const resolveUncertain = ({ metadata, spec }: Group, memory: Memory): void => {
    for (const name of memory.expectations.uncertainNames) {
      const vm = vms.store.get(keyOf({ ...metadata, name }))
      if (vm === undefined) continue
      memory.expectations.resolved(name)
      // Of one whose guest may run, a user may have changed the labels meanwhile.
      if (vm.status?.podUID !== undefined) continue
      const isMember = isSelected(compileStoredSelector(spec.selector), vm.metadata.labels ?? {})
      if (!isMember && isControlledBy(vm, { kind: 'VirtualMachineGroup', metadata })) noteRejected(vm, memory)
    }
  }

  const noteCreated = (vm: Vm, { expectations, created }: Memory): void => {
    created.set(vm.metadata.uid, clock.monotonic())
    expectations.resolved(vm.metadata.name)
    // The watch may have been faster than the response.
    if (vms.store.get(keyOf(vm.metadata))?.metadata.uid === vm.metadata.uid) return
    expectations.created(slimMember(vm), clock.monotonic())
  }

  const act = async (
    key: string,
    group: Group,
    memory: Memory,
    action: Exclude<OwnAction, { readonly do: 'adoptVm' | 'deleteVms' }>,
  ): Promise<readonly never[] | undefined> => {
    switch (action.do) {
      case 'releaseVm':
        return release(key, group, memory, action.vm)
      case 'createVms':
        return createAll(key, group, memory, action)
      case 'bindClaims':
        return bindAll(key, group, memory, action.vms)
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

  /** The cache has neither the provenance of a VM nor all of its owners. */
  const wholeVm = ({ metadata }: Vm): Promise<Vm> => kube.get(virtualMachines, refOf(keyOf(metadata)))

  /** Changes the owners of the version of the VM that the plan was made for. */
  const changeOwners = async (
    vm: Vm,
    { metadata }: Vm,
    change: (owners: readonly OwnerReference[]) => readonly OwnerReference[],
  ): Promise<undefined> => {
    const value = change(metadata.ownerReferences ?? [])
    const body = [...unchanged(vm), { op: 'add', path: '/metadata/ownerReferences', value }]
    await kube.patch(virtualMachines, refOf(keyOf(vm.metadata)), { type: 'json', body })
    return undefined
  }

  const adopt = async (group: Group, vm: Vm): Promise<undefined> =>
    changeOwners(vm, await wholeVm(vm), (owners) => [...owners, referenceTo(group)])

  /**
   * A VM that the selector has never selected is deleted instead, which ends the pass: it counts until it is gone. The
   * last leader ended before it deleted the VM, or the controller completed the VM because the webhooks had not.
   */
  const release = async (key: string, group: Group, memory: Memory, vm: Vm): Promise<readonly never[] | undefined> => {
    const whole = await wholeVm(vm)
    const selector = compileStoredSelector(group.spec.selector)
    const why = whole.metadata.uid === vm.metadata.uid ? whyNeverSelected(selector, whole) : undefined
    if (why === undefined) {
      return changeOwners(vm, whole, (owners) => owners.filter(({ uid }) => uid !== group.metadata.uid))
    }
    failCreation(key, group, memory, await reject(group, memory, vm, why))
    return []
  }

  const noteRejected = ({ metadata }: Vm, memory: Memory): void => {
    memory.rejected.add(metadata.uid)
    memory.asksFirst = true
  }

  /** Deletes a VM that was never a member. If that fails, the next pass does it. */
  const reject = async (group: Group, memory: Memory, vm: Vm, why: string): Promise<UnselectedVm> => {
    noteRejected(vm, memory)
    await deleteOne(group, memory, vm)
    return new UnselectedVm(why)
  }

  /**
   * A group that was deleted and created again under the same name must not own anything under the old uid. The cache of
   * a new leader may lag behind: by an old number of replicas, VMs would be deleted, and with them their claims.
   */
  const wholeOf = async ({ metadata }: Group): Promise<Persisted<VirtualMachineGroup>> => {
    const current = await kube.get(virtualMachineGroups, refOf(keyOf(metadata)))
    if (current.metadata.uid !== metadata.uid || current.metadata.deletionTimestamp !== undefined) {
      throw new Error(`the group ${metadata.uid} does not exist or terminates; it gets no VM`)
    }
    if (current.metadata.generation !== metadata.generation) {
      const message = `it has changed since generation ${metadata.generation}`
      throw new ApiError(`read the group ${metadata.name}`, { code: 409, reason: 'Conflict', message })
    }
    return current
  }

  /** One, then two, then four …: a template that is refused is refused once, not five hundred times. */
  const createAll = async (
    key: string,
    group: Group,
    memory: Memory,
    { count, names: given }: Extract<GroupAction, { do: 'createVms' }>,
  ): Promise<undefined> => {
    const whole = await wholeOf(group)
    // A number that was uncertain need not be missing: the group may have been scaled in since.
    const randomNames = Array.from({ length: count }, () => `${vmPrefix(group)}${suffix()}`)
    const names = given ?? [...memory.expectations.uncertainNames, ...randomNames].slice(0, count)
    const deadline = createPassDeadline(clock)
    let done = 0
    for (let at = 0, size = 1; at < names.length; at += size, size = Math.min(2 * size, creationsAtOnce)) {
      if (done < at || (at > 0 && deadline.isOver())) break
      loop.assertLeading()
      const batch = names.slice(at, at + size)
      const outcomes = await Promise.allSettled(batch.map((name) => create(whole, memory, name, deadline)))
      const failed = outcomes.find((outcome) => outcome.status === 'rejected')
      if (failed !== undefined) return failCreation(key, group, memory, failed.reason)
      done += outcomes.filter((outcome) => outcome.status === 'fulfilled' && outcome.value).length
    }
    if (done > 0) {
      memory.refusal = undefined
      memory.asksFirst = false
    }
    const hasFailure = group.status?.conditions?.some(({ type }) => type === 'ReplicaFailure') === true
    if (done < names.length || hasFailure) loop.add(key)
    return undefined
  }

  /** Returns whether there is a VM of this name, rather than only some of its claims because the deadline is over. */
  const create = async (
    group: Persisted<VirtualMachineGroup>,
    memory: Memory,
    name: string,
    deadline: PassDeadline,
  ): Promise<boolean> => {
    const selector = compileStoredSelector(group.spec.selector)
    const spec = { template: templateWithClaims({ metadata: { name }, spec: group.spec }) }
    const owner = { ...group, kind: 'VirtualMachineGroup', spec } as const
    const vm = virtualMachineOf(owner, name, revisionOf(group.spec.template))
    const object = { ...vm, metadata: { ...vm.metadata, generateName: vmPrefix(group) } }
    if (memory.asksFirst) await ask(selector, object)
    if (!(await createClaims(kube, group, name, deadline)) || deadline.isOver()) return false
    const isRepeated = memory.expectations.uncertainNames.includes(name)
    memory.expectations.uncertain(name)
    try {
      const made = await kube.create(virtualMachines, object)
      await welcome(group, memory, made)
      record(group, 'Normal', 'SuccessfulCreate', `Created VM ${name}`)
    } catch (error) {
      if (!isAlreadyExists(error)) {
        const isKnown = error instanceof ApiError && error.status.code < 500
        if (isKnown) memory.expectations.resolved(name)
        throw error
      }
      await adoptName(group, memory, name, isRepeated, error)
    }
    return true
  }

  /** @throws UnselectedVm if the VM that this process has created has other labels than the group selects */
  const welcome = async (group: Group, memory: Memory, vm: Vm): Promise<void> => {
    noteCreated(vm, memory)
    const why = whyUnselected(compileStoredSelector(group.spec.selector), vm)
    if (why !== undefined) throw await reject(group, memory, vm, why)
  }

  /**
   * Only spares a creation that would have to be undone: if there is no answer, such as with a webhook that does not
   * support dry runs, the creation decides.
   *
   * @throws UnselectedVm if admission would give this VM labels that the group does not select
   */
  const ask = async (selector: Selector, object: VirtualMachine): Promise<void> => {
    const made = await kube.create(virtualMachines, object, { dryRun: true }).catch(() => undefined)
    const why = made === undefined ? undefined : whyUnselected(selector, made)
    if (why !== undefined) throw new UnselectedVm(why)
  }

  const bindAll = async (key: string, group: Group, { boundVms }: Memory, all: readonly Vm[]): Promise<undefined> => {
    const unbound = all.filter(({ metadata }) => !boundVms.has(metadata.uid))
    if (unbound.length === 0) return undefined
    const whole = await wholeOf(group)
    for (const vm of unbound.slice(0, maxBindings)) {
      // Another leader can have created another VM of this number, whose claims are the same.
      loop.assertLeading()
      await bindClaims(kube, whole, vm)
      boundVms.add(vm.metadata.uid)
    }
    if (unbound.length > maxBindings) loop.add(key)
    return undefined
  }

  /**
   * A VM that this process created without receiving the response, if the creation was repeated, or one that a former
   * leader created, whose labels may have changed since, or, very rarely, another client's VM under a generated name.
   * The number of a VM with claims has only one name.
   */
  const adoptName = async (
    group: Group,
    memory: Memory,
    name: string,
    isRepeated: boolean,
    taken: unknown,
  ): Promise<void> => {
    const found = await kube.get(virtualMachines, refOf(keyOf({ ...group.metadata, name })))
    memory.expectations.resolved(name)
    const isOwn = isControlledBy(found, { kind: 'VirtualMachineGroup', metadata: group.metadata })
    if (isOwn && isRepeated && found.status?.podUID === undefined) await welcome(group, memory, found)
    else if (isOwn) noteCreated(found, memory)
    else if ((group.spec.claimTemplates ?? []).length > 0) throw taken
  }

  const failCreation = (key: string, group: Group, memory: Memory, error: unknown): undefined => {
    if (!(error instanceof ApiError || error instanceof ClaimEnding || error instanceof UnselectedVm)) throw error
    const message = error instanceof ApiError ? firstCause(error) : error.message
    memory.refusal = message
    memory.backOffUntilMs = clock.monotonic() + memory.backOff.next()
    record(group, 'Warning', 'FailedCreate', message)
    // The next pass reports it in the status, and finds out when to retry.
    loop.add(key)
    return undefined
  }

  const deleteAll = async (group: Group, memory: Memory, all: readonly Vm[]): Promise<undefined> => {
    await wholeOf(group)
    for (let at = 0; at < all.length; at += deletionsAtOnce) {
      loop.assertLeading()
      await Promise.all(all.slice(at, at + deletionsAtOnce).map((vm) => deleteOne(group, memory, vm)))
    }
    return undefined
  }

  const deleteOne = async (group: Group, { expectations }: Memory, { metadata }: Vm): Promise<void> => {
    const { uid, name } = metadata
    await unlessNotFound(kube.delete(virtualMachines, refOf(keyOf(metadata)), { uid }))
    const cached = vms.store.get(keyOf(metadata))
    const isDelivered = cached?.metadata.uid === uid && cached.metadata.deletionTimestamp === undefined
    const isAwaited = expectations.unseen.some((vm) => vm.metadata.uid === uid)
    if (isDelivered || isAwaited) expectations.deleted(uid)
    record(group, 'Normal', 'SuccessfulDelete', `Deleted VM ${name}`)
  }

  const record = (group: Group, type: 'Normal' | 'Warning', reason: string, message: string): undefined => {
    loop.recordEvent({ resource: cachedGroups, object: group }, type, reason, message)
  }

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

/** What is planned with a VM until the watch delivers it. Users choose the size of the rest, of hundreds of VMs. */
function slimMember(vm: Vm): Vm {
  const { apiVersion, kind, metadata, status } = vm
  const controller = controllerOf(vm)
  return {
    apiVersion,
    kind,
    metadata: {
      ...slimMetadata(metadata, 'creationTimestamp', 'deletionTimestamp', 'labels'),
      ...slimMap(metadata, 'annotations', templateRevisionAnnotation),
      ...(controller === undefined ? {} : { ownerReferences: [controller] }),
    },
    spec: { domain: {} },
    ...(status === undefined ? {} : { status: pick(status, 'phase', 'reason', 'message', 'conditions') }),
  }
}

const withNote = (action: GroupAction): readonly (GroupAction | OwnAction)[] =>
  action.do === 'updateStatus' ? [action, { do: 'noteFirstStatus' }] : [action]

const ownedBy = (namespace = '', owner: string): string => `${namespace}/${owner}`

const referenceTo = (group: Group) => ownerReference({ kind: 'VirtualMachineGroup', metadata: group.metadata })

function firstCause({ status }: ApiError): string {
  const [cause, ...more] = status.details?.causes ?? []
  if (cause === undefined) return status.message
  const rest = more.length === 0 ? '' : ` (and ${more.length} more)`
  return `${cause.field === undefined ? '' : `${cause.field}: `}${cause.message ?? ''}${rest}`
}
