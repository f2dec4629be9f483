import { filledAnnotation } from '../api/claim-volume.ts'
import { isFinished, macsOf } from '../api/virtual-machine.ts'
import type { VirtualMachine } from '../api/virtual-machine.ts'
import { requestedGraceSeconds } from '../api/template.ts'
import { isAlreadyExists, isRefusal, unlessCounting, unlessNotFound } from '../runtime/api-error.ts'
import { timestamp } from '../runtime/clock.ts'
import type { DeleteOptions } from '../runtime/kube.ts'
import { startReflector } from '../runtime/reflector.ts'
import type { Reflector } from '../runtime/reflector.ts'
import { keyOf, refOf, unchanged, virtualMachines } from '../runtime/resource.ts'
import type { KubeObject, Persisted } from '../runtime/resource.ts'
import type { Change } from '../runtime/store.ts'
import { createTurns } from '../runtime/turns.ts'
import type { WorkQueueStatistics } from '../runtime/work-queue.ts'
import type { CommonAction } from './action.ts'
import { createCheckTime, createWaitingRoom, type CheckTime } from './check-time.ts'
import { readClaim } from './claim.ts'
import { claimKeysOf } from './claim-rival.ts'
import type { Engine } from './engine.ts'
import { withFinalizer, withoutFinalizer } from './finalizer.ts'
import { excludeNodes } from './exclude-nodes.ts'
import {
  claimsOf,
  nameLabelOf,
  podGraceSeconds,
  podName,
  sourceClaimsOf,
  vmNameLabel,
  vmUidLabel,
} from './launcher-pod.ts'
import { gatherMs, isLabelling } from './labelling.ts'
import { findLostSnapshots } from './lost-snapshot.ts'
import { createLoop } from './loop.ts'
import type { ControllerContext } from './loop.ts'
import { createPodFailures } from './pod-failure.ts'
import { nodeEvents, nodes, slimNode, stateOf } from './node.ts'
import type { Node, NodeState } from './node.ts'
import { isTerminal, sortPods } from './own-pod.ts'
import { areUnread, labelledPods, maxCopied, relabelling } from './pod-labels.ts'
import { persistentVolumeClaims, pods } from './pod.ts'
import type { Claim, Pod } from './pod.ts'
import { isWhole, readPods, slimPod, slimStartingPod } from './slim-pod.ts'
import { awaitsStart, cachedVms, vmSlimmer } from './slim-vm.ts'
import type { CachedVm } from './slim-vm.ts'
import { createRefusedPods } from './refused-pods.ts'
import { createStartingVms } from './starting-vms.ts'
import { createStopwatch } from './stopwatch.ts'
import type { Action } from './vm-action.ts'
import { creatingPod, creationOverdueMs, statesOf } from './vm-observed.ts'
import type { Completion, Mark, Observed } from './vm-observed.ts'
import { plan, refusedToCreate, refusedToRelabel } from './vm-plan.ts'
import { completionRefused } from './vm-status.ts'

type Vm = Persisted<CachedVm>
type VmAction = Exclude<Action, CommonAction<unknown>>

interface VmControllerOptions extends ControllerContext {
  readonly engine: Engine
  /** The launcher's image. */
  readonly image: string
  /** VMs worked on at once. */
  readonly concurrency: number
  /** Whether the owner of a VM must observe it before it is removed. */
  readonly isAwaited: (vm: Pick<Persisted<VirtualMachine>, 'metadata'>) => boolean
  readonly checkTime?: CheckTime
}

/**
 * Gives each VM its launcher pod. It fills its caches at once, so that it can take over at any time, and acts when it
 * leads.
 */
interface VmController {
  readonly vms: Reflector<CachedVm, 'node' | 'mac' | 'uid' | 'refused' | 'claim'>
  readonly pods: Reflector<Pod, 'vm' | 'vmName'>
  readonly nodes: Reflector<Node>
  lead(): Promise<void>
  /**
   * A preset, the labels of a namespace, or a node profile changed: completes the VMs again that completion refused, of
   * one namespace or of all.
   */
  reconsiderIncomplete(namespace: string | undefined): void
  statistics(): WorkQueueStatistics | undefined
  stop(): Promise<void>
}

/** A config records at once that its restart has created a VM. */
const awaitedMs = 1000
/** A pod existed when it was created, and no longer when it was read. */
const goneMs = 100

export function startVmController(options: VmControllerOptions): VmController {
  const { kube, engine, log, image, clock, concurrency, isAwaited, checkTime = createCheckTime() } = options
  const startingVms = createStartingVms()
  const slimVm = vmSlimmer((vm) => engine.presetsOf(vm), startingVms)
  const vms = startReflector({
    kube,
    resource: cachedVms,
    log,
    clock,
    slim: slimVm,
    indexers: {
      node: ({ status }: VirtualMachine) => (status?.nodeName === undefined ? [] : [status.nodeName]),
      mac: ({ spec }: VirtualMachine) => macsOf(spec),
      uid: ({ metadata }: VirtualMachine) => (metadata.uid === undefined ? [] : [metadata.uid]),
      claim: claimKeysOf,
      refused: (vm: VirtualMachine) => (isRefused(vm) ? [vm.metadata.namespace ?? ''] : []),
    },
  })
  /** Whether its VM is not handed over to it yet. A VM that is not cached yet may be. */
  const isStarting = ({ metadata, status }: Pod): boolean =>
    status?.phase === undefined ||
    status.phase === 'Pending' ||
    vms.store.byIndex('uid', metadata.labels?.[vmUidLabel] ?? '').some(awaitsStart)
  const nodeCache = startReflector({ kube, resource: nodes, log, clock, slim: slimNode, eventRate: nodeEvents })
  const podCache = startReflector({
    kube,
    resource: readPods,
    log,
    clock,
    labelSelector: vmUidLabel,
    slim: (pod) => (isStarting(pod) ? slimStartingPod(pod) : slimPod(pod)),
    indexers: {
      vm: ({ metadata }: Pod) => [metadata.labels?.[vmUidLabel] ?? ''],
      vmName: ({ metadata }: Pod) => [keyOf({ ...metadata, name: metadata.labels?.[vmNameLabel] ?? '' })],
    },
  })
  const turns = createTurns()
  const stopwatch = createStopwatch<Mark>(clock, (uid) => vms.store.byIndex('uid', uid).length > 0)
  /** Uids of removed pods whose containers this process saw end. An entry is removed with its VM. */
  const endedPods = new Set<string>()
  /** Uids of VMs whose claims this process marked as filled. An entry is removed with its VM. */
  const filledVms = new Set<string>()
  const refusedPods = createRefusedPods(clock)
  const refusedLabels = createRefusedPods(clock)

  /** Queues the VM with this key after a change of it or of a pod. */
  const note = (change: Change<KubeObject>, key: string) => {
    if (isLabelling(change)) loop.addAfter(key, gatherMs)
    else loop.add(key)
  }

  vms.onChange((change) => {
    const { kind, object } = change
    if (kind === 'deleted') {
      loop.forget(object.metadata)
      waitingRoom.leave(object.metadata.namespace ?? '', keyOf(object.metadata))
      stopwatch.forget(object.metadata.uid)
      engine.forget(object.metadata.uid)
      endedPods.delete(object.status?.podUID ?? '')
      filledVms.delete(object.metadata.uid)
      refusedPods.forget(object.metadata.uid)
      refusedLabels.forget(object.metadata.uid)
    }
    note(change, keyOf(object.metadata))
  })
  podCache.onChange((change) => {
    const { kind, object } = change
    const { labels = {}, ownerReferences = [] } = object.metadata
    for (const uid of new Set([labels[vmUidLabel] ?? '', ...ownerReferences.map((owner) => owner.uid)])) {
      for (const vm of vms.store.byIndex('uid', uid)) {
        // Only what is final counts: a pod that has no node in this cache may have got one before its deletion, which a
        // new list shows without it.
        if (kind === 'deleted' && vm.status?.podUID === object.metadata.uid && isTerminal(object)) {
          endedPods.add(object.metadata.uid)
        }
        note(change, keyOf(vm.metadata))
      }
    }
  })
  nodeCache.onChange((change) => {
    const { object } = change
    if (change.kind === 'updated' && stateOf(change.previous) === stateOf(object)) return
    for (const { metadata } of vms.store.byIndex('node', object.metadata.name)) loop.add(keyOf(metadata))
  })

  const reconcile = async (key: string): Promise<void> => {
    const cached = vms.store.get(key)
    if (!cached || mustWait(cached)) return
    const vm = await wholeOf(loop.newest(cached))
    if (vm === undefined) return
    const observed = await observe(vm)
    if (observed === undefined) return
    await loop.perform({ resource: cachedVms, object: vm }, plan(observed), (action) => act(observed, action))
  }

  const wholeOf = async (vm: Vm): Promise<Vm | undefined> => {
    const known = vm.isPartial === true ? startingVms.get(vm) : vm
    if (known !== undefined) return known
    const found = await unlessNotFound(kube.get(virtualMachines, refOf(keyOf(vm.metadata))))
    return found?.metadata.uid === vm.metadata.uid ? found : undefined
  }

  /** Undefined if the VM must wait to be checked. */
  const observe = async (vm: Vm): Promise<Observed | undefined> => {
    const found = podsOf(vm, await findNamedPod(vm))
    const node = await nodeStateOf(vm, found.pods.length > 0)
    if (awaitsStart(vm)) await inTurn(vm)
    if (mustWait(vm)) return undefined
    waitingRoom.leave(vm.metadata.namespace ?? '', keyOf(vm.metadata))
    const completion = measured(vm, () => completionOf(vm))
    const elapsed = stopwatch.measure(vm.metadata.uid, statesOf(vm, found.pods, node))
    const overdue = (elapsed.get('creating') ?? 0) < creationOverdueMs ? undefined : creatingPod(vm, found.pods)
    const isStarting = completion.kind === 'done' && vm.status?.podUID === undefined && !isDeleting(vm)
    const claims = isStarting ? await findClaims(vm) : new Map<string, Claim>()
    return {
      vm,
      ...found,
      predecessors: isStarting ? predecessorsOf(vm) : [],
      isEndObserved: endedPods.has(vm.status?.podUID ?? ''),
      completion,
      isFillRecorded: filledVms.has(vm.metadata.uid),
      image,
      claims,
      lostSnapshots: await findLostSnapshots(kube, vm.metadata.namespace ?? 'default', claims),
      failure: overdue && (await findFailure(overdue)),
      node,
      elapsed,
      now: timestamp(clock),
    }
  }

  /** To check a large VM takes a tenth of a second: between two, other namespaces have a turn. */
  const inTurn = ({ metadata: { namespace = '' } }: Vm): Promise<void> | undefined =>
    turns.take({ tenant: namespace, username: '' })

  const measured = <T>({ metadata: { namespace = '' } }: Vm, check: () => T): T => checkTime.measure(namespace, check)

  const waitingRoom = createWaitingRoom(checkTime, clock, (key) => loop.add(key))

  /** Whether its namespace has used up its time for checks; another pass follows then. */
  const mustWait = (vm: Vm): boolean => {
    const isChecked = awaitsStart(vm) && vm.status?.podUID === undefined && !isDeleting(vm)
    return isChecked && waitingRoom.enter(vm.metadata.namespace ?? '', keyOf(vm.metadata))
  }

  const podsOf = (vm: Vm, named: Persisted<Pod> | undefined) => {
    const name = podName(vm)
    const others = podCache.store.byIndex('vm', vm.metadata.uid).filter((pod) => pod.metadata.name !== name)
    return sortPods(vm, named, others)
  }

  /**
   * The cache may lag, and has no pod without our label. If it has no pod of this name while the VM needs one,
   * `createPod` detects an existing pod without a read. If the VM has a pod already, the API server is asked. So it is
   * for a pod that is cached only in part while its VM can still take it: an earlier leader created it.
   */
  const findNamedPod = async (vm: Vm): Promise<Persisted<Pod> | undefined> => {
    const cached = podCache.store.get(keyOf(namedPod(vm)))
    if (isFinished(vm) && !isDeleting(vm)) return cached
    const needsPod = vm.status?.podUID === undefined && !isDeleting(vm)
    const isEnough = cached === undefined ? needsPod : isWhole(cached) || !needsPod
    return isEnough ? cached : readNamedPod(vm)
  }

  /**
   * With its pod missing, a VM counts as ended because its node is gone or silent. The cache can be late, and more so
   * while Nodes change often, so the API server is asked.
   */
  const nodeStateOf = async (vm: Vm, hasPods: boolean): Promise<NodeState> => {
    const { nodeName: name } = vm.status ?? {}
    const cached = stateOf(nodeCache.store.get(name ?? ''))
    const isDoubtful = cached === 'gone' || cached === 'silent'
    if (name === undefined || hasPods || !isDoubtful || (isFinished(vm) && !isDeleting(vm))) return cached
    return stateOf(await unlessNotFound(kube.get(nodes, { name })))
  }

  const readNamedPod = (vm: Vm): Promise<Persisted<Pod> | undefined> => unlessNotFound(kube.get(readPods, namedPod(vm)))

  /** Pods of VMs of the same name that no longer exist. The finalizer prevents them, unless it is removed by hand. */
  const predecessorsOf = ({ metadata }: Vm): readonly Persisted<Pod>[] =>
    podCache.store
      .byIndex('vmName', keyOf({ ...metadata, name: nameLabelOf(metadata.name) }))
      .filter(({ metadata: { labels = {} } }) => vms.store.byIndex('uid', labels[vmUidLabel] ?? '').length === 0)

  const findClaims = async (vm: Vm): Promise<Map<string, Claim>> => {
    const found = new Map<string, Claim>()
    const find = async (name: string) => {
      const claim = await readClaim(kube, claimRef(vm, name))
      if (claim) found.set(name, claim)
    }
    for (const name of claimsOf(vm)) await find(name)
    for (const name of sourceClaimsOf(vm, found)) await find(name)
    return found
  }

  const findFailure = createPodFailures(kube, clock)

  /** A claim that was deleted meanwhile needs no mark. */
  const markFilled = async (vm: Vm): Promise<void> => {
    const sourced = (vm.spec.volumes ?? []).flatMap(({ persistentVolumeClaim: claim }) =>
      claim?.source === undefined ? [] : [claim.claimName],
    )
    for (const name of new Set(sourced)) {
      const claim = await unlessNotFound(kube.get(persistentVolumeClaims, claimRef(vm, name)))
      if (claim === undefined || claim.metadata.annotations?.[filledAnnotation] !== undefined) continue
      const { uid } = claim.metadata
      const body = { metadata: { uid, annotations: { [filledAnnotation]: timestamp(clock) } } }
      await unlessNotFound(kube.patch(persistentVolumeClaims, claimRef(vm, name), { type: 'merge', body }))
    }
    filledVms.add(vm.metadata.uid)
  }

  const completionOf = (vm: Vm): Completion => {
    if (isDeleting(vm) || !awaitsStart(vm)) return { kind: 'done', presets: [] }
    const presets = engine.presetsOf(vm)
    if (presets) {
      const causes = vm.status?.podUID === undefined ? engine.refusals(vm) : []
      return causes.length > 0 ? { kind: 'refused', causes } : { kind: 'done', presets: [...presets.keys()].toSorted() }
    }
    const outcome = engine.complete(vm)
    return 'causes' in outcome
      ? { kind: 'refused', causes: outcome.causes }
      : { kind: 'todo', vm: withIdentity(outcome.vm, vm) }
  }

  /** Returns the actions that replace the rest of the plan if this one could not be done. */
  const act = async (observed: Observed, action: VmAction): Promise<readonly Action[] | undefined> => {
    const { vm } = observed
    switch (action.do) {
      case 'completeSpec':
        loop.noteWrite(await kube.update(cachedVms, action.vm))
        return undefined
      case 'addFinalizer':
        loop.noteWrite(await patchFinalizers(vm, withFinalizer(vm)))
        return undefined
      case 'removeFinalizer':
        if (isAwaited(vm)) return [{ do: 'requeueAfter', afterMs: awaitedMs }]
        await unlessNotFound(patchFinalizers(vm, withoutFinalizer(vm)))
        return undefined
      case 'markFilled':
        await markFilled(vm)
        return undefined
      case 'createPod':
        return createPod(observed, action.pod)
      case 'relabelPod':
        return relabelPod(vm, action.pod)
      case 'deletePod':
        await unlessNotFound(kube.delete(pods, refOf(keyOf(action.pod.metadata)), deletionOf(vm, action.pod)))
        return undefined
      case 'replacePod':
        return replacePod(vm, action)
    }
  }

  /**
   * The cache can be late, so another leader can have named the pod in the status, and its guest can run. A newer version
   * of the VM brings another pass.
   */
  const replacePod = async (
    vm: Vm,
    { pod, createAfterMs }: VmAction & { readonly do: 'replacePod' },
  ): Promise<readonly Action[] | undefined> => {
    const { metadata } = await kube.get(cachedVms, refOf(keyOf(vm.metadata)))
    if (metadata.resourceVersion !== vm.metadata.resourceVersion) return undefined
    loop.assertLeading()
    await unlessNotFound(kube.delete(pods, refOf(keyOf(pod.metadata)), deletionOf(vm, pod)))
    refusedPods.note(vm, createAfterMs)
    return undefined
  }

  const createPod = async (observed: Observed, pod: Pod): Promise<readonly Action[] | undefined> => {
    const { vm } = observed
    const leftMs = refusedPods.leftMs(vm)
    if (leftMs > 0) return [{ do: 'requeueAfter', afterMs: leftMs }]
    await inTurn(vm)
    const unfit = measured(vm, () => engine.unfitNodes(vm))
    loop.assertLeading()
    try {
      await unlessCounting(kube.createUnread(pods, excludeNodes(pod, unfit)))
      refusedPods.forget(vm.metadata.uid)
      return undefined
    } catch (error) {
      const refusal = isRefusal(error) ? error.status.message : undefined
      if (refusal === undefined && !isAlreadyExists(error)) throw error
      // Admission may refuse the pod before the API server notices that it exists.
      const existing = await readNamedPod(vm)
      if (existing !== undefined) return plan({ ...observed, ...podsOf(observed.vm, existing) })
      if (refusal === undefined) return [{ do: 'requeueAfter', afterMs: goneMs }]
      const actions = refusedToCreate(observed, refusal)
      for (const action of actions) if (action.do === 'requeueAfter') refusedPods.note(vm, action.afterMs)
      return actions
    }
  }

  /** Only of the pod as it was read: others can change labels of it at the same time. */
  const relabelPod = async (vm: Vm, pod: Persisted<Pod>): Promise<readonly Action[] | undefined> => {
    const leftMs = refusedLabels.leftMs(vm)
    if (leftMs > 0) return [{ do: 'requeueAfter', afterMs: leftMs }]
    const found = await unlessNotFound(kube.get(labelledPods, namedPod(vm)))
    if (found === undefined || found.metadata.uid !== pod.metadata.uid) return undefined
    const refuse = (why: string): readonly Action[] => {
      const actions = refusedToRelabel(pod, why)
      for (const action of actions) if (action.do === 'requeueAfter') refusedLabels.note(vm, action.afterMs)
      return actions
    }
    if (areUnread(found.metadata)) return refuse(`it has more than ${maxCopied} bytes of labels`)
    const changed = relabelling(vm.metadata, found.metadata)
    if (changed === undefined) return undefined
    const { uid, resourceVersion } = found.metadata
    loop.assertLeading()
    try {
      const body = { metadata: { uid, resourceVersion, ...changed } }
      await unlessNotFound(kube.patch(labelledPods, namedPod(vm), { type: 'merge', body }))
      return undefined
    } catch (error) {
      if (!isRefusal(error)) throw error
      return refuse(error.status.message)
    }
  }

  const patchFinalizers = (vm: Vm, finalizers: readonly string[]): Promise<Vm> => {
    const body = [...unchanged(vm), { op: 'add', path: '/metadata/finalizers', value: finalizers }]
    return kube.patch(cachedVms, refOf(keyOf(vm.metadata)), { type: 'json', body })
  }

  const loop = createLoop<CachedVm>({
    ...options,
    slim: slimVm,
    reconcile,
    keys: () => vms.store.list().map(({ metadata }) => keyOf(metadata)),
    caches: [vms, podCache, nodeCache],
    concurrency,
  })

  return {
    vms,
    pods: podCache,
    nodes: nodeCache,
    lead: () => loop.lead(),
    reconsiderIncomplete(namespace) {
      const refused = namespace === undefined ? vms.store.list() : vms.store.byIndex('refused', namespace)
      for (const vm of refused) if (isRefused(vm)) loop.addAfter(keyOf(vm.metadata), gatherMs)
    },
    statistics: () => loop.statistics(),
    async stop() {
      await loop.stop()
      await Promise.all([vms.stop(), podCache.stop(), nodeCache.stop()])
    },
  }
}

const isRefused = ({ status }: VirtualMachine): boolean => status?.reason === completionRefused

/** Deletes only the pod with this uid; overrides its grace period only if the user requested that. */
function deletionOf(vm: Vm, pod: Persisted<Pod>): DeleteOptions {
  const { uid } = pod.metadata
  return requestedGraceSeconds(vm) === undefined ? { uid } : { uid, gracePeriodSeconds: podGraceSeconds(vm) }
}

/**
 * Completion does not know where an object is stored. The finalizer is stored with the completed spec, before any pod.
 */
function withIdentity(completed: VirtualMachine, stored: Vm): Vm {
  const { name, uid, resourceVersion } = stored.metadata
  const finalizers = withFinalizer(stored)
  return { ...completed, metadata: { ...completed.metadata, name, uid, resourceVersion, finalizers } }
}

const claimRef = (vm: Vm, name: string) => ({ ...refOf(keyOf(vm.metadata)), name })

const namedPod = (vm: Vm) => ({ ...refOf(keyOf(vm.metadata)), name: podName(vm) })

function isDeleting({ metadata }: VirtualMachine): boolean {
  return metadata.deletionTimestamp !== undefined
}
