import { isDeepStrictEqual } from 'node:util'
import { group, type Condition, type OwnerReference } from '../api/object.ts'
import { firstTexts } from '../api/shorten.ts'
import {
  quiescedCondition,
  volumeSnapshotNameOf,
  type SnapshotStatus,
  type SnapshotVolume,
  type VirtualMachineSnapshot,
} from '../api/snapshot.ts'
import { isFinished, type FreezeRequest, type VirtualMachine } from '../api/virtual-machine.ts'
import type { Volume } from '../api/volume.ts'
import { findCondition, setCondition } from '../runtime/condition.ts'
import { agentCondition } from '../runtime/guest-info.ts'
import { virtualMachineSnapshots, type Persisted } from '../runtime/resource.ts'
import type { CommonAction } from './action.ts'
import type { VolumeSnapshot } from './volume-snapshot.ts'

type Snapshot = Persisted<VirtualMachineSnapshot>

/** The VM or config that a snapshot is taken of. */
export interface Source {
  /** Absent if a config has no VM. */
  readonly vm?: Persisted<VirtualMachine>
  /** Of the VM, or of the config without one. */
  readonly uid: string
  readonly volumes: readonly Volume[]
}

export interface ObservedSnapshot {
  readonly snapshot: Snapshot
  readonly source: Source | undefined
  /** The name of an older snapshot of this source that is not complete. */
  readonly earlier: string | undefined
  /** A claim of a source without a guest that the first VM of its config or group has yet to fill. */
  readonly unfilledClaim: string | undefined
  /**
   * By name, those that exist; before its volumes are recorded, those that have the names it would use, if nothing else
   * makes it wait.
   */
  readonly volumeSnapshots: ReadonlyMap<string, Persisted<VolumeSnapshot>>
  /** How long this process has seen it waiting for its source, or in progress, by the monotonic clock. */
  readonly sinceMs: number
  /** How long this process has seen one of its VolumeSnapshots about to be gone, by the same clock; else 0. */
  readonly leavingMs: number
  /** Whether the cluster has the kind VolumeSnapshot. */
  readonly isSupported: boolean
  /** RFC 3339. */
  readonly now: string
}

export type SnapshotAction =
  | CommonAction<SnapshotStatus>
  | { readonly do: 'createVolumeSnapshot'; readonly volume: SnapshotVolume }
  /** Write this request into the status of the VM. */
  | { readonly do: 'requestFreeze'; readonly vm: Persisted<VirtualMachine>; readonly freeze: FreezeRequest }

/**
 * How often to look at what sends no event, VMs and VolumeSnapshots: less and less often, because snapshots that never
 * get ready must not use up the requests of others.
 */
const pollMs = { shortest: 500, shortestSlow: 5000, longest: 60_000 }
/** Each look reads all VolumeSnapshots of the snapshot. One with more of them is looked at less often. */
const volumesPerPoll = 8
/** A cluster gets the kind when its administrator installs it. */
const unsupportedPollMs = 60_000
/** How long the handler and the launcher can take to report that the guest is frozen. The launcher itself waits 20 s. */
const freezeWithinMs = 45_000
/** The launcher thaws after 30 s, whatever happens. */
const thawWithinMs = 120_000
/** Storage that has neither taken a claim nor reported an error by then is reported. It is still waited for. */
const takeWithinMs = 120_000
const refusedRetryMs = 30_000
/** The garbage collector and storage need seconds. Longer waiting would hold up all later snapshots of the source. */
const leaveWithinMs = 600_000
const longestName = 253

/**
 * What to do for a snapshot, in this order. Every step starts from what is stored, so any process can end at any
 * moment: a VolumeSnapshot has a name that is known before it is created, and the launcher thaws the guest by itself.
 *
 *     no volumes recorded yet           → wait for the source, record its volumes; ask for the guest to be frozen
 *     not known whether it is quiesced  → wait until the guest is frozen, or cannot be; create VolumeSnapshots
 *     all VolumeSnapshots are taken     → ask for the guest to be thawed; it states whether it was frozen until then
 *     all are ready to use              → Ready
 */
export function planSnapshot(observed: ObservedSnapshot): SnapshotAction[] {
  const { snapshot, isSupported } = observed
  const { phase, volumes } = snapshot.status ?? {}
  if (snapshot.metadata.deletionTimestamp !== undefined || phase === 'Ready' || phase === 'Failed') return []
  if (!isSupported) {
    return [
      ...update(observed, { ready: waiting('VolumeSnapshotsUnsupported', unsupported) }),
      ...(findReady(snapshot)?.reason === 'VolumeSnapshotsUnsupported'
        ? []
        : [event('Warning', 'VolumeSnapshotsUnsupported', unsupported)]),
      { do: 'requeueAfter', afterMs: unsupportedPollMs },
    ]
  }
  if (volumes === undefined) return begin(observed)
  const noted = noteUnfrozen(observed, volumes)
  const actions = proceed(noted, volumes)
  if (actions.some((action) => action.do === 'updateStatus')) return actions
  // Before the guest is frozen, and before its claims are taken.
  return [...(noted === observed ? [] : update(observed, { status: noted.snapshot.status ?? {} })), ...actions]
}

/**
 * The same with the volumes that the guest does not have now. A volume can be attached and detached at any time, and is
 * as of the frozen guest only if the guest has it before, when its claim is taken and at the end.
 */
function noteUnfrozen(observed: ObservedSnapshot, volumes: readonly SnapshotVolume[]): ObservedSnapshot {
  const { snapshot, source } = observed
  const { conditions, unfrozenVolumes: before = [] } = snapshot.status ?? {}
  if (source?.vm === undefined || findCondition(conditions, quiescedCondition) !== undefined) return observed
  const names = new Set([...before, ...unfrozenVolumes(source.vm, volumes)])
  if (names.size === before.length) return observed
  return { ...observed, snapshot: { ...snapshot, status: { ...snapshot.status, unfrozenVolumes: [...names] } } }
}

const unsupported =
  'the cluster has no VolumeSnapshots: install the CRDs and the controller of the CSI external-snapshotter'

interface Awaited {
  readonly reason: string
  readonly message: string
}

/** What a snapshot of this source waits for before it looks at VolumeSnapshots; undefined if it can begin. */
export function findAwaited(
  { vm }: Source,
  { snapshot, earlier, unfilledClaim }: Pick<ObservedSnapshot, 'snapshot' | 'earlier' | 'unfilledClaim'>,
): Awaited | undefined {
  if (earlier !== undefined) {
    const message = `the older snapshot ${earlier} is not taken yet: see its condition Ready, or delete it`
    return { reason: 'OtherSnapshot', message }
  }
  if (vm !== undefined && isStarting(vm)) {
    const message = `the VM ${snapshot.spec.source.name} is starting, and its claims may not be filled yet`
    return { reason: 'SourceStarting', message }
  }
  if (unfilledClaim === undefined) return undefined
  const message = `persistentvolumeclaim "${unfilledClaim}" is not filled yet: the first VM of the config or group that it was created for does that`
  return { reason: 'ClaimNotFilled', message }
}

function begin(observed: ObservedSnapshot): SnapshotAction[] {
  const { snapshot, source } = observed
  const { kind = 'VirtualMachine', name } = snapshot.spec.source
  const wait = ({ reason, message }: Awaited, volumes?: readonly SnapshotVolume[]): SnapshotAction[] => [
    ...update(observed, { ready: waiting(reason, message) }),
    pollSlowly(observed, volumes),
  ]
  if (source === undefined) return wait({ reason: 'SourceNotFound', message: `the ${kind} ${name} does not exist` })
  const awaited = findAwaited(source, observed)
  if (awaited !== undefined) return wait(awaited)
  const { vm, uid } = source
  const volumes = volumesToTake(snapshot, source)
  if (volumes.length === 0) return fail(observed, 'NoClaims', `the ${kind} ${name} has no volumes on claims`)
  const tooLong = volumes.find(({ volumeSnapshotName }) => volumeSnapshotName.length > longestName)
  if (tooLong !== undefined) {
    const message = `the VolumeSnapshot of the volume ${tooLong.name} would have a name of more than ${longestName} characters: use a shorter name for the snapshot`
    return fail(observed, 'NameTooLong', message)
  }
  // Only then does the time begin in which the guest has to be frozen.
  const leaving = findLeaving(observed, volumes)
  if (leaving !== undefined) {
    const message = messageOfLeaving(observed, leaving)
    if (isStuck(observed)) return fail(observed, 'NameTaken', message)
    return wait({ reason: 'OldVolumeSnapshot', message }, volumes)
  }
  const excludedVolumes = source.volumes
    .filter(({ persistentVolumeClaim }) => persistentVolumeClaim === undefined)
    .map(({ name: volume }) => volume)
  const quiesced = withoutFreezing(vm)
  const status = {
    sourceUID: uid,
    volumes,
    ...(excludedVolumes.length === 0 ? {} : { excludedVolumes }),
  }
  const ready = waiting('InProgress', 'the snapshot is being taken')
  return [
    ...update(observed, { phase: 'InProgress', status, ready, ...(quiesced === undefined ? {} : { quiesced }) }),
    { do: 'requeueAfter', afterMs: 0 },
  ]
}

/** The volumes of the source on claims. */
export const volumesToTake = (
  { metadata }: Pick<Snapshot, 'metadata'>,
  { volumes }: Pick<Source, 'volumes'>,
): SnapshotVolume[] =>
  volumes.flatMap(({ name, persistentVolumeClaim: claim }) => {
    if (claim === undefined) return []
    return [{ name, claimName: claim.claimName, volumeSnapshotName: volumeSnapshotNameOf(metadata.name, name) }]
  })

/** A VolumeSnapshot that has a name of this snapshot, and is about to be gone. */
export function findLeaving(
  { snapshot, volumeSnapshots }: Pick<ObservedSnapshot, 'snapshot' | 'volumeSnapshots'>,
  volumes: readonly SnapshotVolume[],
): Persisted<VolumeSnapshot> | undefined {
  return volumes
    .flatMap(({ volumeSnapshotName }) => volumeSnapshots.get(volumeSnapshotName) ?? [])
    .find(({ metadata: { deletionTimestamp, ownerReferences = [] } }) => {
      if (deletionTimestamp !== undefined) return true
      const isOurs = ownerReferences.some(({ uid }) => uid === snapshot.metadata.uid)
      return !isOurs && ownerReferences.some((owner) => isPredecessor(owner, snapshot))
    })
}

/** Storage can keep a snapshot as long as a claim that was made from it. */
const isStuck = ({ leavingMs }: ObservedSnapshot): boolean => leavingMs >= leaveWithinMs

/** Whether the owner is a snapshot that had this name. The garbage collector deletes what that owned seconds later. */
export const isPredecessor = (owner: OwnerReference, { metadata }: Pick<Snapshot, 'metadata'>): boolean =>
  owner.apiVersion.startsWith(`${group}/`) &&
  owner.kind === virtualMachineSnapshots.kind &&
  owner.name === metadata.name &&
  owner.uid !== metadata.uid

function messageOfLeaving(observed: ObservedSnapshot, leaving: Persisted<VolumeSnapshot>): string {
  const { name, deletionTimestamp, finalizers = [] } = leaving.metadata
  const advice = isStuck(observed) ? `, after ${leaveWithinMs / 60_000} minutes: use another name for the snapshot` : ''
  if (deletionTimestamp === undefined)
    return `the VolumeSnapshot ${name} belongs to a deleted snapshot of this name, and is not deleted yet${advice}`
  const held = finalizers.length === 0 ? '' : ` (held by ${finalizers.join(', ')})`
  return `the VolumeSnapshot ${name} is still being deleted${held}${advice}`
}

/** A VM that has not run yet, and is not about to be deleted: its launcher may be filling its claims. */
const isStarting = (vm: VirtualMachine): boolean => {
  const phase = vm.status?.phase ?? 'Pending'
  return !isFinished(vm) && phase !== 'Running' && phase !== 'Unknown'
}

type Asserted = Pick<Condition, 'status' | 'reason' | 'message'>

/** Whether the snapshot is consistent if the guest is not frozen for it; undefined if it is to be frozen. */
function withoutFreezing(vm: VirtualMachine | undefined): Asserted | undefined {
  if (vm === undefined || hasPoweredOff(vm)) return { status: 'True', reason: 'NotRunning', message: '' }
  if (isFinished(vm)) {
    return crashConsistent('NotPoweredOff', `the guest did not power off (${vm.status?.reason ?? 'Failed'})`)
  }
  if (vm.status?.phase === 'Unknown') {
    return crashConsistent('NodeUnreachable', 'the node of the VM did not respond')
  }
  if (vm.metadata.deletionTimestamp !== undefined) {
    return crashConsistent('ShuttingDown', 'the guest was shutting down')
  }
  const agent = findCondition(vm.status?.conditions, agentCondition)
  if (agent?.status === 'True') return undefined
  if (agent === undefined) return crashConsistent('NoAgent', 'the VM has no channel for a guest agent')
  return crashConsistent(agent.reason, agent.message)
}

/** Unlike a guest that crashed, was ended after its grace period, or may still run on a node that was lost. */
const hasPoweredOff = ({ status }: VirtualMachine): boolean =>
  status?.phase === 'Succeeded' && status.reason !== 'Destroyed'

const crashConsistent = (reason: string, why: string): Asserted => ({
  status: 'False',
  reason,
  message: `${why}: each disk is as after a power failure, and disks can differ by moments`,
})

function proceed(observed: ObservedSnapshot, volumes: readonly SnapshotVolume[]): SnapshotAction[] {
  const { snapshot, volumeSnapshots } = observed
  const { uid } = snapshot.metadata
  const leaving = findLeaving(observed, volumes)
  if (leaving !== undefined) {
    const message = messageOfLeaving(observed, leaving)
    if (isStuck(observed)) return [...thaw(observed), ...fail(observed, 'NameTaken', message)]
    return [
      ...thaw(observed),
      ...update(observed, { ready: waiting('OldVolumeSnapshot', message) }),
      pollSlowly(observed),
    ]
  }
  // Who can create VolumeSnapshots can also write our UID into one of another claim.
  const foreign = volumes.find(({ claimName, volumeSnapshotName }) => {
    const found = volumeSnapshots.get(volumeSnapshotName)
    if (found === undefined) return false
    const isOwned = (found.metadata.ownerReferences ?? []).some((owner) => owner.uid === uid)
    return !isOwned || found.spec.source.persistentVolumeClaimName !== claimName
  })
  if (foreign !== undefined) {
    const { claimName, volumeSnapshotName } = foreign
    const message = `the VolumeSnapshot ${volumeSnapshotName} exists, and is not of the claim ${claimName} or does not belong to this snapshot`
    return [...thaw(observed), ...fail(observed, 'NameTaken', message)]
  }
  const quiesced = findCondition(snapshot.status?.conditions, quiescedCondition)
  const freezing = quiesced === undefined ? freezingOf(observed) : 'over'
  if (freezing === 'pending') return [...requestFreeze(observed), pollAgain(observed)]
  const missing = volumes.filter(({ volumeSnapshotName }) => !volumeSnapshots.has(volumeSnapshotName))
  if (missing.length > 0) {
    const failed = failureOf(observed)
    return [
      // A launcher that was only late must not freeze the guest yet.
      ...(failed === undefined ? [] : [...thaw(observed), ...update(observed, { quiesced: failed })]),
      ...missing.map((volume): SnapshotAction => ({ do: 'createVolumeSnapshot', volume })),
      pollAgain(observed),
    ]
  }
  return follow(observed, volumes, freezing)
}

/** `frozen`, or `over` where the guest needs no thawing; an assertion where it could not be frozen. */
type Freezing = 'pending' | 'frozen' | 'over' | Asserted

function freezingOf({ snapshot, source, volumeSnapshots, sinceMs }: ObservedSnapshot): Freezing {
  const { metadata, status } = snapshot
  const vm = source?.vm
  const ended = crashConsistent('GuestEnded', 'the guest ended before its claims were taken')
  if (vm === undefined || source?.uid !== status?.sourceUID || isFinished(vm)) return ended
  const { frozen } = vm.status ?? {}
  if (frozen?.id === metadata.uid) {
    if (frozen.state === 'Frozen' || frozen.state === 'Thawing' || frozen.state === 'Thawed') return 'frozen'
    if (frozen.state === 'Failed') return crashConsistent('FreezeFailed', frozen.message ?? 'the agent refused')
    if (frozen.state === 'Expired') return crashConsistent('FreezeExpired', frozen.message ?? 'the guest was thawed')
  }
  if (volumeSnapshots.size > 0) return takenBefore
  if (sinceMs < freezeWithinMs) return 'pending'
  return crashConsistent(
    'NoResponse',
    `the launcher of the VM did not freeze the guest within ${freezeWithinMs / 1000} s`,
  )
}

/** Why what is taken from now on is not of a frozen guest; undefined if it is, or if that is recorded. */
function failureOf(observed: ObservedSnapshot): Asserted | undefined {
  const { uid } = observed.snapshot.metadata
  const recorded = findCondition(observed.snapshot.status?.conditions, quiescedCondition)
  // Another client has deleted a VolumeSnapshot, or created the VM.
  if (recorded?.reason === 'GuestFrozen' || recorded?.reason === 'PartlyFrozen') return thawedBefore
  if (recorded !== undefined) return startedSince(observed)
  const freezing = freezingOf(observed)
  if (typeof freezing === 'object') return freezing
  const { freeze, frozen } = observed.source?.vm?.status ?? {}
  const isAsked = freeze?.id === uid && freeze.thaw === true
  return isAsked || frozen?.state !== 'Frozen' ? thawedBefore : undefined
}

/**
 * Why a snapshot that began without a running guest may be of one; undefined if it is not. Storage and API server have
 * clocks of their own, so only what this process has seen tells when a claim was taken.
 */
function startedSince({ snapshot, source }: ObservedSnapshot): Asserted | undefined {
  const { conditions, creationTime, sourceUID } = snapshot.status ?? {}
  if (findCondition(conditions, quiescedCondition)?.reason !== 'NotRunning' || creationTime !== undefined)
    return undefined
  const vm = source?.vm
  // The guest of another VM can have run and ended since the last look.
  if (source?.uid === sourceUID && (vm === undefined || isFinished(vm))) return undefined
  const why = 'the guest was started, or its VM deleted or replaced, before all claims were seen to be taken'
  return crashConsistent('GuestStarted', why)
}

const thawedBefore = crashConsistent('FreezeExpired', 'the guest was thawed before all claims were taken')

const takenBefore = crashConsistent('TakenTooEarly', 'a VolumeSnapshot existed before the guest was frozen')

function requestFreeze({ snapshot, source }: ObservedSnapshot): SnapshotAction[] {
  const { uid: id } = snapshot.metadata
  const vm = source?.vm
  return vm === undefined || vm.status?.freeze?.id === id ? [] : [{ do: 'requestFreeze', vm, freeze: { id } }]
}

function thaw({ snapshot, source }: ObservedSnapshot): SnapshotAction[] {
  const { uid: id } = snapshot.metadata
  const request = source?.vm?.status?.freeze
  if (source?.vm === undefined || request?.id !== id || request.thaw === true) return []
  return [{ do: 'requestFreeze', vm: source.vm, freeze: { id, thaw: true } }]
}

/** All VolumeSnapshots exist. */
function follow(observed: ObservedSnapshot, volumes: readonly SnapshotVolume[], freezing: Freezing): SnapshotAction[] {
  const { snapshot, volumeSnapshots } = observed
  const found = volumes.flatMap(({ volumeSnapshotName }) => volumeSnapshots.get(volumeSnapshotName) ?? [])
  const times = found.flatMap(({ status }) => status?.creationTime ?? []).toSorted()
  const creationTime = times.at(-1)
  const trouble = troubleOf(observed, found)
  const isNew = trouble.reason !== 'InProgress' && trouble.reason !== findReady(snapshot)?.reason
  const warning = isNew ? [event('Warning', trouble.reason, trouble.message)] : []
  const started = startedSince(observed)
  if (times.length < found.length || creationTime === undefined) {
    const again = trouble.reason === 'InProgress' ? pollAgain(observed) : pollSlowly(observed)
    // At once: the guest can still be frozen meanwhile, for what was taken without that.
    const isUnfrozen = typeof freezing === 'object'
    const known = isUnfrozen ? freezing : started
    return [
      ...(isUnfrozen ? thaw(observed) : []),
      ...update(observed, { ready: trouble, ...(known === undefined ? {} : { quiesced: known }) }),
      ...warning,
      again,
    ]
  }
  const quiesced = freezing === 'over' ? started : outcomeOf(observed, freezing)
  // Only then is the creation time recorded, with which the next snapshot of the guest begins and replaces the request.
  if (quiesced === 'pending') return [...thaw(observed), pollAgain(observed)]
  const asserted = quiesced === undefined ? {} : { quiesced }
  if (found.some(({ status }) => status?.readyToUse !== true)) {
    const uploading = waiting('Uploading', 'the storage is still copying the snapshot')
    const ready = trouble.reason === 'InProgress' ? uploading : trouble
    return [...update(observed, { status: { creationTime }, ready, ...asserted }), ...warning, pollSlowly(observed)]
  }
  const message = `Took a snapshot of ${volumes.map(({ claimName }) => claimName).join(', ')}`
  return [
    ...update(observed, {
      phase: 'Ready',
      status: { creationTime },
      ready: { status: 'True', reason: 'SnapshotReady', message: '' },
      ...asserted,
    }),
    event('Normal', 'SnapshotReady', message),
  ]
}

/** Why VolumeSnapshots are not taken, or not ready to use. Without a snapshotter, they never report an error. */
function troubleOf({ snapshot, sinceMs }: ObservedSnapshot, found: readonly Persisted<VolumeSnapshot>[]): Asserted {
  const broken = found.find(({ status }) => status?.error !== undefined)
  if (broken !== undefined) {
    const { metadata, status } = broken
    return waiting(
      'VolumeSnapshotFailed',
      `the VolumeSnapshot ${metadata.name} cannot be taken yet: ${status?.error?.message ?? ''}`,
    )
  }
  const late = found.find(({ status }) => status?.creationTime === undefined)
  // Another process of the controller has not seen how long it takes.
  const isKnown = findReady(snapshot)?.reason === 'StorageUnresponsive'
  if (late === undefined || (sinceMs < takeWithinMs && !isKnown))
    return waiting('InProgress', 'the snapshot is being taken')
  return waiting(
    'StorageUnresponsive',
    `the storage has neither taken the VolumeSnapshot ${late.metadata.name} within ${takeWithinMs / 1000} s nor reported an error: check that the snapshot-controller and the csi-snapshotter of its driver run`,
  )
}

/** Whether the guest was frozen until the last VolumeSnapshot was taken: only its launcher knows. */
function outcomeOf({ snapshot, source, sinceMs }: ObservedSnapshot, freezing: Freezing): Asserted | 'pending' {
  if (typeof freezing === 'object') return freezing
  const frozen = source?.vm?.status?.frozen
  if (frozen?.state === 'Thawed') {
    const rest = snapshot.status?.unfrozenVolumes ?? []
    if (rest.length === 0) return { status: 'True', reason: 'GuestFrozen', message: '' }
    const names = firstTexts(rest, mostNames, (name) => `"${name}"`)
    const message = `the guest was frozen, but that does not cover the volumes ${names}: they are as after a power failure`
    return { status: 'False', reason: 'PartlyFrozen', message }
  }
  if (sinceMs < thawWithinMs) return 'pending'
  const why = frozen?.state === 'Thawing' && frozen.message !== undefined ? `: ${frozen.message}` : ''
  return crashConsistent('NoResponse', `the launcher of the VM did not report whether the guest stayed frozen${why}`)
}

/** A message is one line of kubectl's. */
const mostNames = 8

/**
 * The volumes whose claims change, or are not written completely, although the guest is frozen: its agent freezes only
 * its own file systems, on disks that no other guest writes to and that are flushed when it does so. The state of a TPM
 * and of UEFI is not frozen either, but firmware writes that in a way that survives a power failure at any time.
 * An attached volume that the guest does not have, or no longer, can be in use by another one.
 */
function unfrozenVolumes({ spec, status }: VirtualMachine, volumes: readonly SnapshotVolume[]): readonly string[] {
  const { filesystems = [], disks = [] } = spec.domain.devices ?? {}
  const uncovered = disks.filter(({ shareable, driver }) => shareable !== undefined || driver?.cache === 'unsafe')
  const unfrozen = new Set([...filesystems, ...uncovered].map(({ source }) => source?.volume))
  const attached = (status?.attachedVolumes ?? []).filter(({ phase }) => phase === 'Attached')
  const held = new Set([...(spec.volumes ?? []), ...attached].map(({ name }) => name))
  return volumes.map(({ name }) => name).filter((name) => unfrozen.has(name) || !held.has(name))
}

/** What to do when the API server refused a VolumeSnapshot: a quota or a policy can be corrected. */
export function refusedToCreate(observed: ObservedSnapshot, message: string): SnapshotAction[] {
  const isRecorded = findReady(observed.snapshot)?.reason === 'FailedCreate'
  const isKnown = findCondition(observed.snapshot.status?.conditions, quiescedCondition) !== undefined
  // A guest that is thawed now is not frozen when the rest is taken.
  const failed = failureOf(observed) ?? (isKnown ? undefined : thawedBefore)
  return [
    ...thaw(observed),
    ...update(observed, {
      ready: waiting('FailedCreate', message),
      ...(failed === undefined ? {} : { quiesced: failed }),
    }),
    ...(isRecorded ? [] : [event('Warning', 'FailedCreate', message)]),
    { do: 'requeueAfter', afterMs: refusedRetryMs },
  ]
}

interface Change {
  readonly phase?: SnapshotStatus['phase']
  readonly status?: SnapshotStatus
  readonly ready?: Asserted
  readonly quiesced?: Asserted
}

function update({ snapshot, now }: ObservedSnapshot, { phase, status, ready, quiesced }: Change): SnapshotAction[] {
  const observedGeneration = snapshot.metadata.generation ?? 1
  const before = snapshot.status ?? {}
  const asserted = [
    ...(ready === undefined ? [] : [{ type: 'Ready', ...ready }]),
    ...(quiesced === undefined ? [] : [{ type: quiescedCondition, ...quiesced }]),
  ]
  const conditions = asserted.reduce<readonly Condition[]>(
    (all, condition) => setCondition(all, { ...condition, observedGeneration }, now),
    before.conditions ?? [],
  )
  const after: SnapshotStatus = {
    ...before,
    ...status,
    observedGeneration,
    phase: phase ?? before.phase ?? 'Pending',
    conditions,
  }
  return isDeepStrictEqual(before, after) ? [] : [{ do: 'updateStatus', status: after }]
}

function fail(observed: ObservedSnapshot, reason: string, message: string): SnapshotAction[] {
  const ready = { status: 'False', reason, message } as const
  return [...update(observed, { phase: 'Failed', ready }), event('Warning', reason, message)]
}

const waiting = (reason: string, message: string): Asserted => ({ status: 'False', reason, message })

const pollAgain = ({ sinceMs }: ObservedSnapshot, shortest: number = pollMs.shortest): SnapshotAction => ({
  do: 'requeueAfter',
  afterMs: Math.min(Math.max(sinceMs / 10, shortest), pollMs.longest),
})

/** @param volumes whose VolumeSnapshots each look reads */
const pollSlowly = (
  observed: ObservedSnapshot,
  volumes: readonly SnapshotVolume[] = observed.snapshot.status?.volumes ?? [],
): SnapshotAction => pollAgain(observed, pollMs.shortestSlow * Math.max(1, Math.ceil(volumes.length / volumesPerPoll)))

const findReady = ({ status }: Snapshot): Condition | undefined => findCondition(status?.conditions, 'Ready')

const event = (type: 'Normal' | 'Warning', reason: string, message: string): SnapshotAction => ({
  do: 'recordEvent',
  type,
  reason,
  message,
})
