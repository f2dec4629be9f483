import { templateWithClaims } from '../api/claim-template.ts'
import type { VirtualMachineGroup } from '../api/group.ts'
import type { OwnerReference } from '../api/object.ts'
import {
  controllerOf,
  isControlledBy,
  ownerReference,
  templateRevisionAnnotation,
  virtualMachineOf,
} from '../api/template.ts'
import type { VirtualMachine } from '../api/virtual-machine.ts'
import { revisionOf } from '../presets/compile.ts'
import { compileStoredSelector, isSelected, selectorText } from '../presets/selector.ts'
import type { Selector } from '../presets/selector.ts'
import { ApiError, isAlreadyExists, isConflict, isNotFound, unlessNotFound } from '../runtime/api-error.ts'
import type { Clock } from '../runtime/clock.ts'
import type { KubeClient } from '../runtime/kube.ts'
import { pageSize, readEach } from '../runtime/pages.ts'
import { keyOf, refOf, unchanged, virtualMachineGroups, virtualMachines } from '../runtime/resource.ts'
import type { Persisted } from '../runtime/resource.ts'
import { pick, slimAnnotations, slimMetadata } from '../runtime/slim.ts'
import { vmPrefix } from './group-claims.ts'
import type { GroupMemory } from './group-memory.ts'
import { maxBindings } from './group-plan.ts'
import type { GroupAction } from './group-plan.ts'
import { createPassDeadline } from './pass-deadline.ts'
import type { PassDeadline } from './pass-deadline.ts'
import type { CachedGroup } from './slim-owner.ts'
import { UnselectedVm, whyNeverSelected, whyUnselected } from './unselected.ts'
import { ClaimEnding, bindClaims, createClaims } from './vm-claims.ts'

type Group = Persisted<CachedGroup>
type Vm = Persisted<VirtualMachine>
type Creation = Extract<GroupAction, { readonly do: 'createVms' }>

interface GroupVmsOptions {
  readonly kube: KubeClient
  readonly clock: Clock
  /** The cached VM with this key. */
  readonly cachedVm: (key: string) => Vm | undefined
  /** Makes names unique. */
  readonly suffix: () => string
  /** @throws if this process does not lead */
  readonly assertLeading: () => void
  /** The group takes another turn. */
  readonly again: (group: Group) => void
  readonly record: (group: Group, type: 'Normal' | 'Warning', reason: string, message: string) => void
}

/**
 * What a group does with its VMs. A failed creation is remembered, reported in an event, and ends the pass. The other
 * methods throw the API server's errors.
 */
interface GroupVms {
  /** Reads the VMs that former leaders created, before this process creates one. */
  verify(group: Group, memory: GroupMemory): Promise<void>
  /** Reads the VMs that the watch should have delivered long ago. */
  resolveOverdue(memory: GroupMemory): Promise<void>
  /** Looks in the cache for the VMs that were created without a response. */
  resolveUncertain(group: Group, memory: GroupMemory): void
  /** Reads the group. @throws if it is not the one that was observed */
  wholeOf(group: Group): Promise<Persisted<VirtualMachineGroup>>
  /** Returns whether the API server has accepted that. If not, it is not tried again for a while. */
  adopt(group: Group, memory: GroupMemory, vm: Vm): Promise<boolean>
  /** Returns no actions, which ends the pass, if it deletes the VM instead. */
  release(group: Group, memory: GroupMemory, vm: Vm): Promise<readonly never[] | undefined>
  createAll(group: Group, memory: GroupMemory, action: Creation): Promise<undefined>
  /** Lets the claims of the VMs be deleted with them. */
  bindAll(group: Group, memory: GroupMemory, vms: readonly Vm[]): Promise<undefined>
  deleteAll(group: Group, memory: GroupMemory, vms: readonly Vm[]): Promise<undefined>
  /** Deletes VMs, and notes them as scaled in. */
  scaleIn(group: Group, memory: GroupMemory, vms: readonly Vm[]): Promise<undefined>
}

/** Creations at a time. They have no more connections, and a pass can end only between two batches. */
const creationsAtOnce = 8
/** Deletions at a time. */
const deletionsAtOnce = 8
/** How long to wait before another attempt to adopt a VM; each refusal doubles it. */
const firstRefusalMs = 1000
const longestRefusalMs = 300_000

export function createGroupVms(options: GroupVmsOptions): GroupVms {
  const { kube, clock, cachedVm, suffix, assertLeading, again, record } = options

  /**
   * The cache of a new leader may lag behind the writes of the last one, so VMs are read from the API server before the
   * first creation. Not for a group of which this process has written the first status: each leader does that before it
   * creates a VM, and the write fails if another one was first. Otherwise, each group that a tenant creates would cost a
   * read of all VMs that it selects.
   */
  const verify = async ({ metadata, spec }: Group, memory: GroupMemory): Promise<void> => {
    const labelSelector = selectorText(compileStoredSelector(spec.selector))
    const { namespace } = metadata
    const scope = { labelSelector, limit: pageSize, ...(namespace === undefined ? {} : { namespace }) }
    await readEach(kube, virtualMachines, scope, (vm) => {
      if (isControlledBy(vm, { kind: 'VirtualMachineGroup', metadata })) noteCreated(vm, memory)
    })
    memory.isVerified = true
  }

  /** Reads the VMs that the watch should have delivered long ago. */
  const resolveOverdue = async ({ expectations, rejected }: GroupMemory): Promise<void> => {
    for (const { metadata } of expectations.overdue(clock.monotonic())) {
      const found = await unlessNotFound(kube.get(virtualMachines, refOf(keyOf(metadata))))
      if (found?.metadata.uid !== metadata.uid) {
        expectations.forget(metadata.uid)
        rejected.delete(metadata.uid)
      } else expectations.created(slimMember(found), clock.monotonic())
    }
  }

  /** Looks for the VMs that were created without a response: another pass must not take one for a former member. */
  const resolveUncertain = ({ metadata, spec }: Group, memory: GroupMemory): void => {
    for (const name of memory.expectations.uncertainNames) {
      const vm = cachedVm(keyOf({ ...metadata, name }))
      if (vm === undefined) continue
      memory.expectations.resolved(name)
      // Of one whose guest may run, a user may have changed the labels meanwhile.
      if (vm.status?.podUID !== undefined) continue
      const isMember = isSelected(compileStoredSelector(spec.selector), vm.metadata.labels ?? {})
      if (!isMember && isControlledBy(vm, { kind: 'VirtualMachineGroup', metadata })) noteRejected(vm, memory)
    }
  }

  const noteCreated = (vm: Vm, { expectations, created }: GroupMemory): void => {
    created.set(vm.metadata.uid, clock.monotonic())
    expectations.resolved(vm.metadata.name)
    // The watch may have been faster than the response.
    if (cachedVm(keyOf(vm.metadata))?.metadata.uid === vm.metadata.uid) return
    expectations.created(slimMember(vm), clock.monotonic())
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

  const adopt = async (group: Group, { refused }: GroupMemory, vm: Vm): Promise<boolean> => {
    const { uid, name } = vm.metadata
    try {
      await changeOwners(vm, await wholeVm(vm), (owners) => [...owners, referenceTo(group)])
      refused.delete(uid)
      return true
    } catch (error) {
      if (!(error instanceof ApiError) || isOutage(error)) throw error
      const isOutdated = isConflict(error) || isNotFound(error)
      const doubledMs = Math.min(2 * (refused.get(uid)?.waitMs ?? firstRefusalMs / 2), longestRefusalMs)
      const waitMs = isOutdated ? firstRefusalMs : doubledMs
      refused.set(uid, { againAtMs: clock.monotonic() + waitMs, waitMs })
      if (!isOutdated) record(group, 'Warning', 'FailedAdopt', `Could not adopt VM ${name}: ${firstCause(error)}`)
      return false
    }
  }

  /**
   * A VM that the selector has never selected is deleted instead, which ends the pass: it counts until it is gone. The
   * last leader ended before it deleted the VM, or the controller completed the VM because the webhooks had not.
   */
  const release = async (group: Group, memory: GroupMemory, vm: Vm): Promise<readonly never[] | undefined> => {
    const whole = await wholeVm(vm)
    const selector = compileStoredSelector(group.spec.selector)
    const why = whole.metadata.uid === vm.metadata.uid ? whyNeverSelected(selector, whole) : undefined
    if (why === undefined) {
      return changeOwners(vm, whole, (owners) => owners.filter(({ uid }) => uid !== group.metadata.uid))
    }
    failCreation(group, memory, await reject(group, memory, vm, why))
    return []
  }

  const noteRejected = ({ metadata }: Vm, memory: GroupMemory): void => {
    memory.rejected.add(metadata.uid)
    memory.asksFirst = true
  }

  /** Deletes a VM that was never a member. If that fails, the next pass does it. */
  const reject = async (group: Group, memory: GroupMemory, vm: Vm, why: string): Promise<UnselectedVm> => {
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
    group: Group,
    memory: GroupMemory,
    { count, names: given }: Creation,
  ): Promise<undefined> => {
    const whole = await wholeOf(group)
    // A number that was uncertain need not be missing: the group may have been scaled in since.
    const randomNames = Array.from({ length: count }, () => `${vmPrefix(group)}${suffix()}`)
    const names = given ?? [...memory.expectations.uncertainNames, ...randomNames].slice(0, count)
    const deadline = createPassDeadline(clock)
    let done = 0
    for (let at = 0, size = 1; at < names.length; at += size, size = Math.min(2 * size, creationsAtOnce)) {
      if (done < at || (at > 0 && deadline.isOver())) break
      assertLeading()
      const batch = names.slice(at, at + size)
      const outcomes = await Promise.allSettled(batch.map((name) => create(whole, memory, name, deadline)))
      const failed = outcomes.find((outcome) => outcome.status === 'rejected')
      if (failed !== undefined) return failCreation(group, memory, failed.reason)
      done += outcomes.filter((outcome) => outcome.status === 'fulfilled' && outcome.value).length
    }
    if (done > 0) {
      memory.refusal = undefined
      memory.asksFirst = false
    }
    const hasFailure = group.status?.conditions?.some(({ type }) => type === 'ReplicaFailure') === true
    if (done < names.length || hasFailure) again(group)
    return undefined
  }

  /** Returns whether there is a VM of this name, rather than only some of its claims because the deadline is over. */
  const create = async (
    group: Persisted<VirtualMachineGroup>,
    memory: GroupMemory,
    name: string,
    deadline: PassDeadline,
  ): Promise<boolean> => {
    const selector = compileStoredSelector(group.spec.selector)
    const spec = { template: templateWithClaims({ metadata: { name }, spec: group.spec }) }
    const owner = { ...group, kind: 'VirtualMachineGroup', spec } as const
    const vm = virtualMachineOf(owner, name, revisionOf(group.spec.template))
    const object = { ...vm, metadata: { ...vm.metadata, generateName: vmPrefix(group) } }
    if (memory.asksFirst) await ask(selector, object)
    const kept = memory.kept.get(name) ?? new Set()
    // Without claims, each VM that is refused has another name.
    if ((group.spec.claimTemplates ?? []).length > 0) memory.kept.set(name, kept)
    if (!(await createClaims(kube, clock, group, name, deadline, kept)) || deadline.isOver()) return false
    const isRepeated = memory.expectations.uncertainNames.includes(name)
    memory.expectations.uncertain(name)
    try {
      const made = await kube.create(virtualMachines, object)
      memory.kept.delete(name)
      await welcome(group, memory, made)
      record(group, 'Normal', 'SuccessfulCreate', `Created VM ${name}`)
    } catch (error) {
      if (!isAlreadyExists(error)) {
        const isKnown = error instanceof ApiError && error.status.code < 500
        if (isKnown) memory.expectations.resolved(name)
        throw error
      }
      await adoptName(group, memory, name, isRepeated)
    }
    return true
  }

  /** @throws UnselectedVm if the VM that this process has created has other labels than the group selects */
  const welcome = async (group: Group, memory: GroupMemory, vm: Vm): Promise<void> => {
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

  /** Has no deadline: a VM that this pass has deleted can be gone before the next one, and its claims would stay. */
  const bindAll = async (group: Group, { scaledIn, kept }: GroupMemory, all: readonly Vm[]): Promise<undefined> => {
    const unbound = all.filter(({ metadata }) => scaledIn.get(metadata.uid)?.isBound !== true)
    if (unbound.length === 0) return undefined
    const whole = await wholeOf(group)
    for (const vm of unbound.slice(0, maxBindings)) {
      // Another leader can have created another VM of this number, whose claims are the same.
      assertLeading()
      // A response that is lost leaves open when that takes effect.
      kept.delete(vm.metadata.name)
      await bindClaims(kube, whole, vm)
      // One that is gone is not noted any more.
      if (scaledIn.has(vm.metadata.uid)) scaledIn.set(vm.metadata.uid, { isBound: true })
    }
    if (unbound.length > maxBindings) again(group)
    return undefined
  }

  /**
   * A VM that this process created without receiving the response, if the creation was repeated, or one that a former
   * leader created, whose labels may have changed since, or, very rarely, another client's VM under a generated name.
   * The number of a VM with claims has only one name.
   */
  const adoptName = async (group: Group, memory: GroupMemory, name: string, isRepeated: boolean): Promise<void> => {
    const found = await kube.get(virtualMachines, refOf(keyOf({ ...group.metadata, name })))
    memory.expectations.resolved(name)
    const isOwn = isControlledBy(found, { kind: 'VirtualMachineGroup', metadata: group.metadata })
    if (isOwn && isRepeated && found.status?.podUID === undefined) await welcome(group, memory, found)
    else if (isOwn) noteCreated(found, memory)
    else if ((group.spec.claimTemplates ?? []).length > 0) throw nameTaken(found)
  }

  const failCreation = (group: Group, memory: GroupMemory, error: unknown): undefined => {
    if (!(error instanceof ApiError || error instanceof ClaimEnding || error instanceof UnselectedVm)) throw error
    const message = error instanceof ApiError ? firstCause(error) : error.message
    memory.refusal = message
    memory.backOffUntilMs = clock.monotonic() + memory.backOff.next()
    record(group, 'Warning', 'FailedCreate', message)
    // The next pass reports it in the status, and finds out when to retry.
    again(group)
    return undefined
  }

  const deleteEach = async (
    group: Group,
    all: readonly Vm[],
    deleteVm: (vm: Vm) => Promise<void>,
  ): Promise<undefined> => {
    await wholeOf(group)
    for (let at = 0; at < all.length; at += deletionsAtOnce) {
      assertLeading()
      await Promise.all(all.slice(at, at + deletionsAtOnce).map(deleteVm))
    }
    return undefined
  }

  const deleteAll = (group: Group, memory: GroupMemory, all: readonly Vm[]): Promise<undefined> =>
    deleteEach(group, all, (vm) => deleteOne(group, memory, vm))

  const scaleIn = (group: Group, memory: GroupMemory, all: readonly Vm[]): Promise<undefined> =>
    deleteEach(group, all, (vm) => {
      // First: the response can be lost, or later than what the watch delivers.
      memory.scaledIn.set(vm.metadata.uid, { isBound: false })
      return deleteOne(group, memory, vm)
    })

  const deleteOne = async (group: Group, { expectations }: GroupMemory, { metadata }: Vm): Promise<void> => {
    const { uid, name } = metadata
    await unlessNotFound(kube.delete(virtualMachines, refOf(keyOf(metadata)), { uid }))
    const cached = cachedVm(keyOf(metadata))
    const isDelivered = cached?.metadata.uid === uid && cached.metadata.deletionTimestamp === undefined
    const isAwaited = expectations.unseen.some((vm) => vm.metadata.uid === uid)
    if (isDelivered || isAwaited) expectations.deleted(uid)
    record(group, 'Normal', 'SuccessfulDelete', `Deleted VM ${name}`)
  }

  return { verify, resolveOverdue, resolveUncertain, wholeOf, adopt, release, createAll, bindAll, deleteAll, scaleIn }
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
      ...slimAnnotations(metadata, { [templateRevisionAnnotation]: 64 }),
      ...(controller === undefined ? {} : { ownerReferences: [controller] }),
    },
    spec: { domain: {} },
    ...(status === undefined ? {} : { status: pick(status, 'phase', 'reason', 'message', 'conditions') }),
  }
}

/** The API server only says that it could not generate a unique name. */
function nameTaken(vm: Vm): ApiError {
  const { name, deletionTimestamp } = vm.metadata
  const owner = controllerOf(vm)
  const whose = owner === undefined ? 'has no owner' : `belongs to ${owner.kind} ${owner.name}`
  const remedy =
    deletionTimestamp === undefined
      ? 'a group with claimTemplates adopts no VM: delete that VM, and the group creates its own, with the claims of this number'
      : 'it is being deleted, and the group creates its own when it is gone'
  const message = `the VM ${name} exists and ${whose}; ${remedy}`
  return new ApiError(`create ${name}`, { code: 409, reason: 'AlreadyExists', message })
}

/** Not 500, with which the API server responds for an object that is too large for etcd. */
const isOutage = ({ status: { code } }: ApiError): boolean => code === 429 || code > 500

const referenceTo = (group: Group) => ownerReference({ kind: 'VirtualMachineGroup', metadata: group.metadata })

function firstCause({ status }: ApiError): string {
  const [cause, ...more] = status.details?.causes ?? []
  if (cause === undefined) return status.message
  const rest = more.length === 0 ? '' : ` (and ${more.length} more)`
  return `${cause.field === undefined ? '' : `${cause.field}: `}${cause.message ?? ''}${rest}`
}
