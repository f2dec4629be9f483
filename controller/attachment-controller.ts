import type { VirtualMachine } from '../api/virtual-machine.ts'
import { isAlreadyExists, isRefusal, unlessCounting, unlessNotFound } from '../runtime/api-error.ts'
import { startReflector } from '../runtime/reflector.ts'
import type { Reflector } from '../runtime/reflector.ts'
import { isOlderVersion, keyOf, refOf, virtualMachines } from '../runtime/resource.ts'
import type { Persisted } from '../runtime/resource.ts'
import { pick, slimMetadata } from '../runtime/slim.ts'
import type { Change } from '../runtime/store.ts'
import type { WorkQueueStatistics } from '../runtime/work-queue.ts'
import type { CommonAction } from './action.ts'
import {
  entriesToVerify,
  isCreating,
  planAttachments,
  refusedAttachments,
  refusedMs,
  volumesToExamine,
  type AttachmentAction,
  type ObservedAttachments,
  type RefusedPod,
} from './attachment-plan.ts'
import { attachedToLabel, attachmentPodName } from './attachment-pod.ts'
import { readClaim } from './claim.ts'
import { rivalsOf, type Rival } from './claim-rival.ts'
import { vmUidLabel } from './launcher-pod.ts'
import { gatherMs, isLabelling } from './labelling.ts'
import { createLoop } from './loop.ts'
import type { ControllerContext } from './loop.ts'
import { hasEnded, isTerminal } from './own-pod.ts'
import { createPassDeadline } from './pass-deadline.ts'
import type { PassDeadline } from './pass-deadline.ts'
import { pods } from './pod.ts'
import type { Claim, Pod } from './pod.ts'
import { createPodFailures } from './pod-failure.ts'
import type { PodFailure } from './pod-failure.ts'
import { createRefusedPods } from './refused-pods.ts'
import { readPods, slimAttachment } from './slim-pod.ts'
import type { CachedVm } from './slim-vm.ts'
import { createStopwatch } from './stopwatch.ts'
import { creationOverdueMs } from './vm-observed.ts'

type Vm = Persisted<CachedVm>
type OwnAction = Exclude<AttachmentAction, CommonAction<unknown>>

interface AttachmentControllerOptions extends ControllerContext {
  readonly vms: Reflector<CachedVm, 'uid' | 'claim'>
  /** The launcher pods. */
  readonly pods: Reflector<Pod, 'vm'>
  /** The launcher's image. */
  readonly image: string
}

/** Creates the pods that serve the claims of attached volumes to launchers, and deletes them. */
interface AttachmentController {
  readonly attachments: Reflector<Pod, 'attachedTo'>
  lead(): Promise<void>
  statistics(): WorkQueueStatistics | undefined
  stop(): Promise<void>
}

/** Each waits for an API server. */
const concurrency = 8
/** Characters of JSON of a pod's spec. One with all tolerations that a VM can have has 90,000. */
const longestSpec = 256 * 1024
/** A pod existed when it was created, and no longer when it was read. */
const goneMs = 1000

export function startAttachmentController(options: AttachmentControllerOptions): AttachmentController {
  const { kube, log, clock, vms, image } = options
  const attachments = startReflector({
    kube,
    resource: readPods,
    log,
    clock,
    labelSelector: attachedToLabel,
    slim: slimAttachment,
    indexers: {
      attachedTo: ({ metadata }: Pod) => [metadata.labels?.[attachedToLabel] ?? ''],
      uid: ({ metadata }: Pod) => [metadata.uid ?? ''],
    },
  })
  const stopwatch = createStopwatch<'creating'>(clock, (uid) => attachments.store.byIndex('uid', uid).length > 0)
  const findFailure = createPodFailures(kube, clock)
  const refusedPods = createRefusedPods(clock)
  /** Uids of removed pods whose containers this process saw end, by the uid of the VM. */
  const endedPods = new Map<string, Set<string>>()

  vms.onChange((change) => {
    const { kind, object } = change
    if (kind === 'deleted') {
      loop.forget(object.metadata)
      endedPods.delete(object.metadata.uid)
      refusedPods.forget(object.metadata.uid)
    }
    if (!hasAttachments(object)) return
    if (isLabelling(change)) loop.addAfter(keyOf(object.metadata), gatherMs)
    else loop.add(keyOf(object.metadata))
  })
  attachments.onChange((change) => {
    const { kind, object } = change
    if (kind === 'deleted') stopwatch.forget(object.metadata.uid)
    for (const vm of vms.store.byIndex('uid', object.metadata.labels?.[attachedToLabel] ?? '')) {
      if (isRemovedAfterEnd(change)) noteEnded(loop.newest(vm), object)
      loop.add(keyOf(vm.metadata))
    }
  })
  // The end of a launcher pod whose VM is being deleted.
  options.pods.onChange(({ kind, object }) => {
    if (kind !== 'deleted') return
    for (const vm of vms.store.byIndex('uid', vmUidOfLabel(object)))
      if (hasAttachments(vm)) loop.add(keyOf(vm.metadata))
  })

  const reconcile = async (key: string): Promise<void> => {
    const cached = vms.store.get(key)
    if (cached === undefined || cached.status?.podUID === undefined) return
    const observed = await observe(loop.newest(cached))
    if (observed === undefined) return
    forgetEnded(observed.vm)
    const target = { resource: virtualMachines, object: observed.vm }
    const refused: RefusedPod[] = []
    const deadline = createPassDeadline(clock)
    const actions = inTurns(observed.vm, planAttachments(observed))
    await loop.perform(target, actions, (action) => act(observed, action, refused, deadline))
    await loop.perform(target, refusedAttachments(observed.vm, refused), (action) =>
      act(observed, action, [], deadline),
    )
    // Once the status has the reason. That of a volume which the status did not have yet is written after another attempt.
    const known = new Set((observed.vm.status?.attachmentPods ?? []).map(({ podName }) => podName))
    for (const { entry } of refused)
      if (known.has(entry.podName)) refusedPods.note(observed.vm, refusedMs, entry.podName)
  }

  /**
   * The creations that were refused longest ago, or never, come first. Refusals can take so long that the first volumes
   * may be tried again before the last ones have been tried.
   */
  const inTurns = (vm: Vm, actions: readonly AttachmentAction[]): readonly AttachmentAction[] => {
    const turnOf = (action: AttachmentAction): number =>
      action.do === 'createAttachmentPod' ? refusedPods.untilMs(vm, action.entry.podName) : -1
    return actions.toSorted((one, other) => turnOf(one) - turnOf(other))
  }

  const observe = async (vm: Vm): Promise<ObservedAttachments | undefined> => {
    const hasLauncher = options.pods.store.byIndex('vm', vm.metadata.uid).length > 0
    const examined = volumesToExamine({ vm, hasLauncher })
    const whole = examined.length === 0 ? vm : await readVm(vm)
    if (whole === undefined) return undefined
    const own = await withSpecs(
      attachments.store
        .byIndex('attachedTo', vm.metadata.uid)
        .filter(({ metadata }) => metadata.namespace === vm.metadata.namespace),
      new Set(examined.map((volume) => attachmentPodName(vm, volume.persistentVolumeClaim.claimName))),
    )
    // Then a claim that exists is the one that a pod with a node uses.
    const claims = new Map<string, Persisted<Claim>>()
    for (const { persistentVolumeClaim } of examined) {
      const name = persistentVolumeClaim.claimName
      const claim = await readClaim(kube, { ...refOf(keyOf(vm.metadata)), name })
      if (claim !== undefined) claims.set(name, claim)
    }
    const ended = endedPods.get(vm.metadata.uid) ?? new Set()
    const failures = await failuresOf(own)
    const uncached = await readUncached({ vm: whole, pods: own, hasLauncher, endedPods: ended })
    const observed = { vm: whole, pods: [...own, ...uncached], hasLauncher, claims, endedPods: ended, failures, image }
    // The newest of all that is observed, both from one state of the cache.
    return { ...observed, rivals: findRivals(whole, claims), isDelivered: isDelivered(whole) }
  }

  const findRivals = (vm: Vm, claims: ObservedAttachments['claims']): Map<string, Rival> =>
    rivalsOf(vm, claims, (key, mayStop) => {
      vms.store.findByIndex('claim', key, (cached) => {
        const { status, metadata } = loop.newest(cached)
        return mayStop({ ...cached, metadata, ...(status === undefined ? {} : { status }) })
      })
    })

  /** Whether the cache has this version of the VM, and with it all that was written before to other VMs. */
  const isDelivered = ({ metadata }: Vm): boolean => {
    const cached = vms.store.get(keyOf(metadata))
    return cached !== undefined && !isOlderVersion(cached.metadata.resourceVersion, metadata.resourceVersion)
  }

  /** Those with these names, which are compared with what the controller would create, are read whole. */
  const withSpecs = async (own: readonly Persisted<Pod>[], names: ReadonlySet<string>): Promise<Persisted<Pod>[]> => {
    const found: Persisted<Pod>[] = []
    for (const pod of own) {
      const { metadata } = pod
      const isRead = names.has(metadata.name) && metadata.deletionTimestamp === undefined
      const read = isRead ? await unlessNotFound(kube.get(readPods, refOf(keyOf(metadata)))) : pod
      // One of another client, under this name, comes with an event if it has the label.
      if (read?.metadata.uid !== metadata.uid) continue
      const { spec } = read
      found.push(JSON.stringify(spec).length > longestSpec ? pod : { ...pod, spec })
    }
    return found
  }

  const readUncached = async (observed: Parameters<typeof entriesToVerify>[0]): Promise<Persisted<Pod>[]> => {
    const found: Persisted<Pod>[] = []
    for (const { podName, podUID } of entriesToVerify(observed)) {
      const ref = { ...refOf(keyOf(observed.vm.metadata)), name: podName }
      const pod = await unlessNotFound(kube.get(readPods, ref))
      if (pod !== undefined && pod.metadata.uid === podUID) found.push(slimAttachment(pod))
    }
    return found
  }

  /** Only events state them. */
  const failuresOf = async (own: readonly Persisted<Pod>[]): Promise<Map<string, PodFailure>> => {
    const failures = new Map<string, PodFailure>()
    for (const pod of own) {
      const { uid } = pod.metadata
      const elapsed = stopwatch.measure(uid, new Map(isCreating(pod) ? [['creating', uid]] : []))
      if ((elapsed.get('creating') ?? 0) < creationOverdueMs) continue
      const failure = await findFailure(pod)
      if (failure !== undefined) failures.set(uid, failure)
    }
    return failures
  }

  const readVm = async (vm: Vm): Promise<Vm | undefined> => {
    const found = await unlessNotFound(kube.get(virtualMachines, refOf(keyOf(vm.metadata))))
    return found?.metadata.uid === vm.metadata.uid ? found : undefined
  }

  /** A replica that does not lead makes no passes, so what is over is forgotten here, too. */
  const noteEnded = (vm: Vm, pod: Persisted<Pod>): void => {
    endedPods.set(vm.metadata.uid, new Set(endedPods.get(vm.metadata.uid)).add(pod.metadata.uid))
    forgetEnded(vm)
  }

  /** Those that the status does not name any more. */
  const forgetEnded = (vm: Vm): void => {
    const ended = endedPods.get(vm.metadata.uid)
    if (ended === undefined) return
    const named = new Set((vm.status?.attachmentPods ?? []).map(({ podUID }) => podUID))
    for (const uid of ended) if (!named.has(uid)) ended.delete(uid)
    if (ended.size === 0) endedPods.delete(vm.metadata.uid)
  }

  /** A refusal is added to `refused`, and the actions for other volumes follow. */
  const act = async (
    { vm }: ObservedAttachments,
    action: OwnAction,
    refused: RefusedPod[],
    deadline: PassDeadline,
  ): Promise<readonly AttachmentAction[] | undefined> => {
    if (action.do === 'deleteAttachmentPod') {
      const { metadata } = action.pod
      await unlessNotFound(kube.delete(pods, refOf(keyOf(metadata)), { uid: metadata.uid }))
      if (action.createAfterMs !== undefined) refusedPods.noteInRow(vm, action.createAfterMs, metadata.name)
      return undefined
    }
    const leftMs = refusedPods.leftMs(vm, action.entry.podName)
    if (leftMs > 0) {
      loop.addAfter(keyOf(vm.metadata), leftMs)
      return undefined
    }
    // Only creations follow.
    if (deadline.isOver()) {
      loop.add(keyOf(vm.metadata))
      return []
    }
    try {
      await unlessCounting(kube.createUnread(pods, action.pod))
    } catch (error) {
      if (isAlreadyExists(error)) return onTaken(vm, action, refused)
      if (!isRefusal(error)) throw error
      refused.push({ entry: action.entry, reason: 'FailedCreate', message: error.status.message })
    }
    return undefined
  }

  /** Its own pod comes with the next event. One without the label never comes. */
  const onTaken = async (
    vm: Vm,
    { entry, pod }: OwnAction & { readonly do: 'createAttachmentPod' },
    refused: RefusedPod[],
  ): Promise<undefined> => {
    const ref = { ...refOf(keyOf(vm.metadata)), name: pod.metadata.name ?? '' }
    const existing = await unlessNotFound(kube.get(readPods, ref))
    if (existing === undefined || existing.metadata.labels?.[attachedToLabel] === vm.metadata.uid)
      loop.addAfter(keyOf(vm.metadata), goneMs)
    else refused.push({ entry, reason: 'PodNameTaken', message: `the pod ${ref.name} does not belong to this VM` })
  }

  const loop = createLoop<CachedVm>({
    ...options,
    slim: slimWritten,
    reconcile,
    keys: () =>
      vms.store
        .list()
        .filter(hasAttachments)
        .map(({ metadata }) => keyOf(metadata)),
    caches: [vms, options.pods, attachments],
    concurrency,
  })

  return {
    attachments,
    lead: () => loop.lead(),
    statistics: () => loop.statistics(),
    async stop() {
      await loop.stop()
      await attachments.stop()
    },
  }
}

/** A pod that a new list no longer has may have been scheduled since it was cached. */
const isRemovedAfterEnd = (change: Change<Pod>): boolean =>
  change.kind === 'deleted' && (change.isObserved === true ? hasEnded(change.object) : isTerminal(change.object))

const hasAttachments = ({ spec, status }: VirtualMachine): boolean =>
  (spec.attachedVolumes ?? []).length > 0 ||
  status?.attachmentPods !== undefined ||
  status?.attachedVolumes !== undefined

const vmUidOfLabel = ({ metadata }: Pod): string => metadata.labels?.[vmUidLabel] ?? ''

/** What a pass reads of a VM whose pods exist. A status is written field by field. */
const slimWritten = (vm: Vm): Vm => ({
  ...pick(vm, 'apiVersion', 'kind'),
  metadata: slimMetadata(vm.metadata, 'generation', 'creationTimestamp', 'deletionTimestamp'),
  spec: { domain: {}, ...pick(vm.spec, 'attachedVolumes') },
  status: pick(vm.status ?? {}, 'phase', 'podUID', 'nodeName', 'attachedVolumes', 'attachmentPods'),
})
