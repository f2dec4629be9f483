import { claimNameOf } from '../api/claim-template.ts'
import { apiVersion, group } from '../api/object.ts'
import type { SnapshotVolume, VirtualMachineSnapshot } from '../api/snapshot.ts'
import { isFinished, type FreezeRequest, type VirtualMachine } from '../api/virtual-machine.ts'
import { shorten } from '../api/shorten.ts'
import type { Volume } from '../api/volume.ts'
import { ApiError, isAlreadyExists, isConflict, isNotFound, isRefusal, unlessNotFound } from '../runtime/api-error.ts'
import { timestamp } from '../runtime/clock.ts'
import { startReflector, type Reflector } from '../runtime/reflector.ts'
import {
  apiVersionOf,
  identity,
  keyOf,
  refOf,
  resource,
  unchanged,
  virtualMachineConfigs,
  virtualMachines,
  virtualMachineSnapshots,
  type Persisted,
} from '../runtime/resource.ts'
import { pick, slimMetadata } from '../runtime/slim.ts'
import type { WorkQueueStatistics } from '../runtime/work-queue.ts'
import type { CommonAction } from './action.ts'
import { gatherMs, isLabelling } from './labelling.ts'
import { awaitsFilling, readClaim } from './claim.ts'
import { createLoop, type ControllerContext } from './loop.ts'
import { createPassDeadline, type PassDeadline } from './pass-deadline.ts'
import {
  findAwaited,
  findLeaving,
  isPredecessor,
  planSnapshot,
  refusedToCreate,
  type ObservedSnapshot,
  type SnapshotAction,
  type Source,
  volumesToTake,
} from './snapshot-plan.ts'
import { createSnapshotOrder, isOver, isTaken, sourceKeyOf } from './snapshot-order.ts'
import { volumeSnapshots, type VolumeSnapshot } from './volume-snapshot.ts'

type Snapshot = Persisted<VirtualMachineSnapshot>
type OwnAction = Exclude<SnapshotAction, CommonAction<unknown>>

interface SnapshotControllerOptions extends ControllerContext {
  readonly vms: Reflector<VirtualMachine>
}

/** Takes snapshots of VMs. */
interface SnapshotController {
  readonly snapshots: Reflector<VirtualMachineSnapshot>
  lead(): Promise<void>
  statistics(): WorkQueueStatistics | undefined
  stop(): Promise<void>
}

/** Each waits for an API server, and a guest of each can be frozen meanwhile. */
const concurrency = 8

/**
 * Of up to 256 VolumeSnapshots, while a guest can be frozen. Each is up to 1.5 MiB if other clients add to it, and a
 * namespace has at most six requests in progress: the rest is for its other snapshots.
 */
const readsAtOnce = 4

/** When to look again after another client has changed, deleted or counted what was about to be written. */
const outdatedMs = 500

/**
 * Longer than other passes, for the next one reads all VolumeSnapshots again while the guest is frozen. Not the 30 s
 * after which a launcher thaws its guest: guests of two tenants could then hold all workers for as long, and the guests
 * of others, which need two or three passes, would be thawed before their claims are taken.
 */
const frozenPassMs = 5000

/** Those of its disks, also of the ones that it got while it ran. */
const volumesOf = ({ spec }: VirtualMachine): readonly Volume[] => [
  ...(spec.volumes ?? []),
  ...(spec.attachedVolumes ?? []).map(({ name, persistentVolumeClaim: { claimName } }) => ({
    name,
    persistentVolumeClaim: { claimName },
  })),
]

export function startSnapshotController(options: SnapshotControllerOptions): SnapshotController {
  const { kube, log, clock, vms } = options
  const snapshots = startReflector({
    kube,
    resource: cachedSnapshots,
    log,
    clock,
    slim: slimSnapshot,
    // Otherwise, the snapshots of one tenant would slow down each start of a VM of another.
    indexers: { begun: (snapshot: Snapshot) => (isBegun(snapshot) ? [sourceKeyOf(snapshot)] : []) },
  })
  const order = createSnapshotOrder()
  /** When each stage of each snapshot was first seen, by the monotonic clock. */
  const seenMs = new Map<string, number>()
  snapshots.onChange((change) => {
    const { kind, object } = change
    order.update(change)
    if (kind === 'deleted') loop.forget(object.metadata)
    if (kind === 'deleted' || isOver(object)) for (const stage of stages) seenMs.delete(stageOf(object, stage))
    if (isLabelling(change)) loop.addAfter(keyOf(object.metadata), gatherMs)
    else loop.add(keyOf(object.metadata))
  })
  // The guest of a config can start and end, and its VM be gone, before the next look.
  vms.onChange(({ kind, object }) => {
    if (kind !== 'added') return
    for (const { metadata } of snapshots.store.byIndex('begun', keyOf(object.metadata))) loop.add(keyOf(metadata))
  })

  const reconcile = async (key: string): Promise<void> => {
    const cached = snapshots.store.get(key)
    if (cached === undefined || isOver(loop.newest(cached))) return
    const whole = await unlessNotFound(kube.get(virtualMachineSnapshots, refOf(key)))
    if (whole === undefined || isOver(whole)) return
    const observed = await observe(whole)
    const target = { resource: virtualMachineSnapshots, object: observed.snapshot }
    const actions = planSnapshot(observed)
    const deadline = createPassDeadline(clock, isFrozen(observed) ? frozenPassMs : undefined)
    const performed = loop
      .perform(target, actions, (action) => act(observed, action, deadline))
      .then(() => {
        // Most of a status is not cached: the event of its change looks like one of labels, and a guest can be frozen.
        // An API server whose CRD lacks a field changes nothing.
        if (loop.newest(whole).metadata.resourceVersion !== whole.metadata.resourceVersion) loop.add(key)
      })
    await performed.catch((error: unknown) => {
      if (!isConflict(error) && !isNotFound(error)) throw error
      // It can be one of the VM, or of a quota that is being counted: of neither an event comes.
      loop.addAfter(key, outdatedMs)
    })
  }

  /** From the API server: a cache could still show a guest that is no longer frozen. */
  const observe = async (snapshot: Snapshot): Promise<ObservedSnapshot> => {
    const source = await sourceOf(snapshot)
    const earlier = order.earlierThan(snapshot, source?.vm !== undefined)
    const before = { snapshot, earlier, unfilledClaim: await unfilledClaim(snapshot, source) }
    const supported = await isSupported()
    // Snapshots that wait for something else can be many, and do not need them.
    const isWaiting = source !== undefined && findAwaited(source, before) !== undefined
    const { volumes = isWaiting || source === undefined ? [] : volumesToTake(snapshot, source) } = snapshot.status ?? {}
    const found = await readVolumeSnapshots(snapshot, supported ? volumes : [])
    return {
      ...before,
      source,
      volumeSnapshots: found,
      leavingMs: leavingMs(snapshot, findLeaving({ snapshot, volumeSnapshots: found }, volumes) !== undefined),
      sinceMs: sinceMs(snapshot),
      isSupported: supported,
      now: timestamp(clock),
    }
  }

  const sinceMs = (snapshot: Snapshot): number =>
    stageMs(snapshot, snapshot.status?.volumes === undefined ? 'waiting' : 'in progress')

  const leavingMs = (snapshot: Snapshot, isLeaving: boolean): number => {
    if (isLeaving) return stageMs(snapshot, 'leaving')
    seenMs.delete(stageOf(snapshot, 'leaving'))
    return 0
  }

  const stageMs = (snapshot: Snapshot, stage: Stage): number => {
    const key = stageOf(snapshot, stage)
    const startMs = seenMs.get(key) ?? clock.monotonic()
    // A snapshot that was deleted during its pass is not forgotten again.
    if (snapshots.store.get(keyOf(snapshot.metadata)) !== undefined) seenMs.set(key, startMs)
    return clock.monotonic() - startMs
  }

  const sourceOf = async ({ metadata, spec }: Snapshot): Promise<Source | undefined> => {
    const ref = { ...refOf(keyOf(metadata)), name: spec.source.name }
    const vm = await unlessNotFound(kube.get(virtualMachines, ref))
    if (vm !== undefined) return { vm, uid: vm.metadata.uid, volumes: volumesOf(vm) }
    if (spec.source.kind !== 'VirtualMachineConfig') return undefined
    const config = await unlessNotFound(kube.get(virtualMachineConfigs, ref))
    if (config === undefined) return undefined
    const own = (config.spec.claimTemplates ?? []).map(({ name }) => ({
      name,
      persistentVolumeClaim: { claimName: claimNameOf(name, config.metadata.name) },
    }))
    return { uid: config.metadata.uid, volumes: [...(config.spec.template.spec.volumes ?? []), ...own] }
  }

  /** Of a VM that has run, all claims are filled. It can have ended, or its config never have had one, before that. */
  const unfilledClaim = async ({ metadata, status }: Snapshot, source: Source | undefined) => {
    if (status?.volumes !== undefined || source === undefined) return undefined
    if (source.vm !== undefined && (!isFinished(source.vm) || hasRun(source.vm))) return undefined
    for (const { persistentVolumeClaim } of source.volumes) {
      if (persistentVolumeClaim === undefined) continue
      const claim = await readClaim(kube, { ...refOf(keyOf(metadata)), name: persistentVolumeClaim.claimName })
      if (claim !== undefined && awaitsFilling(claim)) return claim.metadata.name
    }
    return undefined
  }

  const readVolumeSnapshots = async (snapshot: Snapshot, volumes: readonly SnapshotVolume[]) => {
    const found = new Map<string, Persisted<VolumeSnapshot>>()
    const read = async ({ volumeSnapshotName: name }: SnapshotVolume): Promise<void> => {
      const one = await unlessNotFound(kube.get(volumeSnapshots, { ...refOf(keyOf(snapshot.metadata)), name }))
      if (one !== undefined) found.set(name, slimVolumeSnapshot(one, snapshot))
    }
    for (let at = 0; at < volumes.length; at += readsAtOnce)
      await Promise.all(volumes.slice(at, at + readsAtOnce).map(read))
    return found
  }

  const isSupported = async (): Promise<boolean> =>
    (await unlessNotFound(kube.request('GET', `/apis/${apiVersionOf(volumeSnapshots)}`))) !== undefined

  const act = async (
    observed: ObservedSnapshot,
    action: OwnAction,
    deadline: PassDeadline,
  ): Promise<readonly SnapshotAction[] | undefined> => {
    if (action.do === 'requestFreeze') {
      await requestFreeze(action.vm, action.freeze)
      return undefined
    }
    if (!deadline.isOver()) return createVolumeSnapshot(observed, action.volume)
    loop.add(keyOf(observed.snapshot.metadata))
    return []
  }

  const requestFreeze = async (vm: Persisted<VirtualMachine>, freeze: FreezeRequest): Promise<void> => {
    const body = [...unchanged(vm), { op: 'add', path: '/status/freeze', value: freeze }]
    await kube.patch(virtualMachines, refOf(keyOf(vm.metadata)), { type: 'json', body }, { subresource: 'status' })
  }

  const createVolumeSnapshot = async (
    observed: ObservedSnapshot,
    { claimName, volumeSnapshotName: name }: SnapshotVolume,
  ): Promise<readonly SnapshotAction[] | undefined> => {
    const { metadata, spec } = observed.snapshot
    const { namespace } = refOf(keyOf(metadata))
    const owner = { apiVersion, kind: virtualMachineSnapshots.kind, name: metadata.name, uid: metadata.uid }
    try {
      await kube.create(volumeSnapshots, {
        apiVersion: apiVersionOf(volumeSnapshots),
        kind: volumeSnapshots.kind,
        metadata: {
          name,
          ...(namespace === undefined ? {} : { namespace }),
          labels: { [snapshotLabel]: metadata.uid },
          ownerReferences: [owner],
        },
        spec: {
          ...pick(spec, 'volumeSnapshotClassName'),
          source: { persistentVolumeClaimName: claimName },
        },
      })
      return undefined
    } catch (error) {
      // It is observed in the next round, and may belong to another client.
      if (isAlreadyExists(error)) return undefined
      if (!isRefusal(error) && !isUnreachableWebhook(error)) throw error
      return refusedToCreate(observed, `the VolumeSnapshot ${name} could not be created: ${error.status.message}`)
    }
  }

  const loop = createLoop<VirtualMachineSnapshot>({
    ...options,
    slim: slimSnapshot,
    reconcile,
    keys: () => snapshots.store.list().map(({ metadata }) => keyOf(metadata)),
    caches: [snapshots],
    concurrency,
  })

  return {
    snapshots,
    lead: () => loop.lead(),
    statistics: () => loop.statistics(),
    async stop() {
      await Promise.all([snapshots.stop(), loop.stop()])
    },
  }
}

const hasRun = ({ status }: VirtualMachine): boolean =>
  (status?.phaseTransitionTimestamps ?? []).some(({ phase }) => phase === 'Running')

const isFrozen = ({ snapshot, source }: ObservedSnapshot): boolean => {
  const { frozen } = source?.vm?.status ?? {}
  return frozen?.id === snapshot.metadata.uid && frozen.state === 'Frozen'
}

/** The API server answers so if a webhook for VolumeSnapshots does not answer. Only its owner can correct that. */
const isUnreachableWebhook = (error: unknown): error is ApiError =>
  error instanceof ApiError && error.status.code === 500 && error.status.message.includes('failed calling webhook')

/** On a VolumeSnapshot: the UID of the VirtualMachineSnapshot that it was created for. */
const snapshotLabel = `${group}/snapshot`

/** A VolumeSnapshot of one can be about to be gone, `leaving`, in both of the others. */
const stages = ['waiting', 'in progress', 'leaving'] as const
type Stage = (typeof stages)[number]

const stageOf = ({ metadata }: Snapshot, stage: Stage): string => `${metadata.uid} ${stage}`

/** Whether it is to be taken of a source that is known, and may not have been taken yet. */
const isBegun = (snapshot: Snapshot): boolean => snapshot.status?.phase === 'InProgress' && !isTaken(snapshot)

/** Of those that are listed and watched. A pass reads the whole snapshot. */
export const cachedSnapshots = resource<VirtualMachineSnapshot>({
  ...virtualMachineSnapshots,
  read: {
    apiVersion: true,
    kind: true,
    metadata: { ...identity, creationTimestamp: true, deletionTimestamp: true },
    spec: { source: true },
    status: { phase: true, creationTime: true },
  },
})

/** The list of its volumes, which is the largest part, and its conditions are read for each pass. */
export const slimSnapshot = ({ apiVersion, kind, metadata, spec, status }: Snapshot): Snapshot => ({
  apiVersion,
  kind,
  metadata: slimMetadata(metadata, 'creationTimestamp', 'deletionTimestamp'),
  spec: pick(spec, 'source'),
  ...(status === undefined ? {} : { status: pick(status, 'phase', 'creationTime') }),
})

/** Characters of the storage's message. */
const maxErrorLength = 1024

/** Of up to 256, a pass has only this in memory: other clients can add megabytes. */
function slimVolumeSnapshot(one: Persisted<VolumeSnapshot>, of: Snapshot): Persisted<VolumeSnapshot> {
  const { metadata, spec, status } = one
  const ownerReferences = (metadata.ownerReferences ?? []).filter(
    (owner) => owner.uid === of.metadata.uid || isPredecessor(owner, of),
  )
  const message = status?.error?.message
  const error = message === undefined ? status?.error : { message: shorten(message, maxErrorLength) }
  return {
    metadata: { ...slimMetadata(metadata, 'deletionTimestamp', 'finalizers'), ownerReferences },
    spec: { source: pick(spec.source, 'persistentVolumeClaimName') },
    ...(status === undefined
      ? {}
      : { status: { ...pick(status, 'creationTime', 'readyToUse'), ...(error === undefined ? {} : { error }) } }),
  }
}
