import { isDeepStrictEqual } from 'node:util'
import { isSameAttachment, mostReported, type AttachedVolume, type AttachmentPod } from '../api/attached-volume.ts'
import { shorten } from '../api/shorten.ts'
import { isFinished, type VirtualMachineStatus } from '../api/virtual-machine.ts'
import { statusMessage } from '../runtime/condition.ts'
import type { Persisted } from '../runtime/resource.ts'
import type { CommonAction } from './action.ts'
import { differenceFrom } from './adopt.ts'
import { isOlder } from './age.ts'
import { attachmentPod, attachmentPodName } from './attachment-pod.ts'
import { awaitsFilling } from './claim.ts'
import { asksFor, hasDisk, keepsDisk, mayAttach, type Rival } from './claim-rival.ts'
import { hasEnded, isTerminal } from './own-pod.ts'
import type { Claim, Pod } from './pod.ts'
import type { PodFailure } from './pod-failure.ts'
import { lastLine } from './termination-message.ts'
import { creationOverdueMs } from './vm-observed.ts'
import type { Vm } from './vm-observed.ts'

type OwnPod = Persisted<Pod>

export interface ObservedAttachments {
  /** Whole if `needsWhole`. */
  readonly vm: Vm
  /** The cached pods with the label of the VM. */
  readonly pods: readonly OwnPod[]
  /** Whether the API server has a pod that runs the VM, as far as the cache shows it. */
  readonly hasLauncher: boolean
  /** By name, those that exist, of `volumesToExamine`. Read after the pods. */
  readonly claims: ReadonlyMap<string, Persisted<Claim>>
  /** By the name of the claim: another VM because of which a volume must not be attached. */
  readonly rivals: ReadonlyMap<string, Rival>
  /** Whether they were looked for among all VMs that asked for a claim before this version of `vm` was written. */
  readonly isDelivered: boolean
  /** Uids of removed pods whose containers this process saw end. */
  readonly endedPods: ReadonlySet<string>
  /** By uid: why the kubelet cannot create the container of a pod. Looked up only when that takes long. */
  readonly failures?: ReadonlyMap<string, PodFailure>
  readonly image: string
}

export type AttachmentAction =
  | CommonAction<VirtualMachineStatus>
  | { readonly do: 'createAttachmentPod'; readonly entry: AttachmentPod; readonly pod: Pod }
  /** Without `createAfterMs`, another can be created at once. It doubles for each one in a row. */
  | { readonly do: 'deleteAttachmentPod'; readonly pod: OwnPod; readonly createAfterMs?: number }

/** A claim that does not exist sends no event, nor does a quota that has room again. */
export const claimPollMs = 10_000
/** When to look again whether a younger VM that asks for the same claim has given way, or has got it. */
const givingWayMs = 1000
/** When a pod that the API server or its kubelet refused, or that admission changed, is created again. */
export const refusedMs = 3 * claimPollMs

/** Whether nothing of the VM runs any more, so that no pod needs to serve it. */
const isOver = ({ vm, hasLauncher }: Pick<ObservedAttachments, 'vm' | 'hasLauncher'>): boolean =>
  isFinished(vm) || (vm.metadata.deletionTimestamp !== undefined && !hasLauncher)

/** Those that the guest shall have. Before it runs, and on a node that does not respond, none gets a pod. */
const wantedOf = (observed: Pick<ObservedAttachments, 'vm' | 'hasLauncher'>): readonly AttachedVolume[] =>
  isOver(observed) ? [] : (observed.vm.spec.attachedVolumes ?? [])

/**
 * The volumes for which a pod is to be created, or one that was created is to be recognized, or whose claim an earlier
 * version has not noted.
 */
export const volumesToExamine = ({ vm, hasLauncher }: Pick<ObservedAttachments, 'vm' | 'hasLauncher'>) =>
  mayAttach(vm)
    ? wantedOf({ vm, hasLauncher }).filter((volume) => {
        const { podUID, claimUID } = entryOf(vm, volume) ?? {}
        return (podUID === undefined || claimUID === undefined) && !isHeld(vm, volume)
      })
    : []

/**
 * The entries of a VM that has ended whose pods are neither cached nor known to have ended. An earlier leader can have
 * named one that the cache does not have yet, and without its entry, another VM would get the claim.
 */
export const entriesToVerify = (observed: Pick<ObservedAttachments, 'vm' | 'pods' | 'hasLauncher' | 'endedPods'>) =>
  isOver(observed)
    ? entriesOf(observed.vm).filter(
        (entry) =>
          !isKnownToHaveEnded(observed, entry) && !observed.pods.some(({ metadata }) => metadata.uid === entry.podUID),
      )
    : []

const entriesOf = ({ status }: Vm): readonly AttachmentPod[] => status?.attachmentPods ?? []

const entryOf = (vm: Vm, volume: AttachedVolume): AttachmentPod | undefined =>
  entriesOf(vm).find((entry) => isSameAttachment(volume, entry))

/** Whether an attachment that ends still has the name or the claim of this one. */
const isHeld = (vm: Vm, volume: AttachedVolume): boolean =>
  entriesOf(vm).some(
    (entry) =>
      !isSameAttachment(volume, entry) &&
      (entry.name === volume.name || entry.claimName === volume.persistentVolumeClaim.claimName),
  )

/**
 * What to do for the attached volumes of a VM.
 *
 *     in the spec      → create its pod, once the claim exists and no earlier pod of this claim is left
 *     pod has a node   → name its UID, and that of its claim, in the status, once no other VM can be about to get the
 *                        claim: only then the handler takes its socket
 *     in use elsewhere → while the guest does not have the disk: create no pod, and delete the one that exists
 *     not in the spec  → once the handler has detached the disk, delete the pod
 *     VM has ended     → delete all pods
 *
 * At most one pod serves a claim to a VM: their names are equal. Where the pod is gone and its containers were not seen
 * to end, as after a forced deletion, another is created once the handler has confirmed that they have. It serves the
 * same claim: a guest must not continue on the disk of another claim that has the name by then.
 *
 * `status.attachmentPods` is written only here, and `status.attachedVolumes` only by the handler.
 */
export function planAttachments(observed: ObservedAttachments): AttachmentAction[] {
  const { vm, pods } = observed
  const wanted = wantedOf(observed)
  // A guest can hold volumes that are to be detached, and with more entries the status could not be written.
  let room = mostReported - entriesOf(vm).length
  const staying = wanted.map((volume): Step => {
    if (entryOf(vm, volume) !== undefined) return follow(observed, volume)
    const step = room > 0 ? follow(observed, volume) : {}
    if (step.entry !== undefined) room--
    return step
  })
  const leaving = entriesOf(vm)
    .filter((entry) => !wanted.some((volume) => isSameAttachment(volume, entry)))
    .map((entry) => release(observed, entry))
  const steps = [...staying, ...leaving]
  const entries = steps.flatMap(({ entry }) => entry ?? [])
  const known = new Set(entries.map(({ podName }) => podName))
  // A restored copy of a pod, or one whose volume was removed before it was noted.
  const others = pods.filter(({ metadata }) => !known.has(metadata.name) && metadata.deletionTimestamp === undefined)
  const actions = steps.flatMap(({ actions: own = [] }) => own)
  const isCreate = (action: AttachmentAction) => action.do === 'createAttachmentPod'
  return [
    ...updateEntries(vm, entries),
    ...others.map((pod): AttachmentAction => ({ do: 'deleteAttachmentPod', pod })),
    // A quota can have room for a pod once another is deleted.
    ...actions.filter((action) => !isCreate(action)),
    ...actions.filter(isCreate),
  ]
}

/** What becomes of an entry of the status, and what else is to be done. */
interface Step {
  readonly entry?: AttachmentPod
  readonly actions?: readonly AttachmentAction[]
}

function follow(observed: ObservedAttachments, volume: AttachedVolume): Step {
  const { vm, pods } = observed
  const { claimName, readOnly = false } = volume.persistentVolumeClaim
  const podName = attachmentPodName(vm, claimName)
  const before = entryOf(vm, volume)
  const bare = { name: volume.name, claimName, ...(readOnly ? { readOnly } : {}), podName, ...pickClaim(before) }
  if (before === undefined && isHeld(vm, volume)) return {}
  const pod = pods.find(({ metadata }) => metadata.name === podName)
  if (before?.podUID !== undefined && pod?.metadata.uid !== before.podUID) return replace(observed, before, bare)
  if (pod === undefined) return create(observed, volume, before ?? bare, bare)
  if (before?.podUID === undefined) return recognize(observed, volume, before ?? bare, bare, pod)
  const rival = rivalryFor(observed, claimName)
  const isKept = isStartedAgain(pod) && !isAttached(vm, volume)
  const trouble = rival ?? (isKept ? explanationOf(before) : { ...failureOf(observed, pod), ...troubleOf(pod) })
  const entry = { ...bare, podUID: before.podUID, ...claimOf(observed, bare, pod), ...trouble }
  const isInTheWay = (rival !== undefined || isTerminal(pod)) && pod.metadata.deletionTimestamp === undefined
  return {
    entry,
    actions: [
      ...warn(before, entry),
      ...(isCreating(pod) ? [{ do: 'requeueAfter', afterMs: creatingPollMs(entry) } as const] : []),
      ...(isInTheWay
        ? [{ do: 'deleteAttachmentPod', pod, ...(hasStarted(pod) ? {} : { createAfterMs: refusedMs }) } as const]
        : []),
    ],
  }
}

/** Its kubelet has accepted it. One that refuses pods, for a taint or for want of something, refuses the next one at once. */
const hasStarted = (pod: OwnPod): boolean => !isTerminal(pod) || (pod.status?.containerStatuses ?? []).length > 0

type Explanation = Pick<AttachmentPod, 'reason' | 'message'>

/** Why the claim must not be attached now, although the guest would get it. */
function rivalryFor({ rivals }: ObservedAttachments, claimName: string): Required<Explanation> | undefined {
  const rival = rivals.get(claimName)
  if (rival === undefined || rival.givesWay) return undefined
  return { reason: claimInUse, message: textOf(messageOf(rival, claimName)) }
}

/** Who has the claim, and what to do. */
function messageOf({ name, how, hasEnded, reason }: Rival, claimName: string): string {
  const claim = `the claim "${claimName}"`
  if (hasEnded) return `the VM "${name}" has ended, and its pod with ${claim} has not: it is attached here after that`
  if (how === 'volume')
    return `the VM "${name}" has ${claim} as a volume, and its guest does not share it: it is attached once that VM has ended`
  const detach = 'detach it there, and it is attached here'
  if (how === 'guestHasIt') return `the VM "${name}" has ${claim} attached: ${detach}`
  const trouble = reason === undefined ? '' : `, although its pod does not serve it now (${reason})`
  return `the VM "${name}" is to get ${claim} first${trouble}: ${detach}`
}

const claimInUse = 'ClaimInUse'

function failureOf({ failures }: ObservedAttachments, { metadata }: OwnPod): Explanation {
  const failure = failures?.get(metadata.uid)
  return failure === undefined ? {} : { reason: failure.reason, message: textOf(failure.message) }
}

/** A list of events is a large read. */
const creatingPollMs = ({ reason }: AttachmentPod): number => (reason === undefined ? 1 : 6) * creationOverdueMs

/** Whether the kubelet still prepares its container: volumes of it can be missing. */
export const isCreating = ({ metadata, status }: OwnPod): boolean =>
  metadata.deletionTimestamp === undefined &&
  status?.containerStatuses?.[0]?.state?.waiting?.reason === 'ContainerCreating'

const explanationOf = ({ reason, message }: AttachmentPod) => ({
  ...(reason === undefined ? {} : { reason }),
  ...(message === undefined ? {} : { message }),
})

/** A container that ends again and again runs for moments: what was wrong stays until the volume is attached. */
const isStartedAgain = ({ metadata, status }: OwnPod): boolean => {
  const [container] = status?.containerStatuses ?? []
  const { waiting, terminated } = container?.state ?? {}
  const isRunning = waiting === undefined && terminated === undefined
  return metadata.deletionTimestamp === undefined && isRunning && container?.lastState?.terminated !== undefined
}

const isAttached = ({ status }: Vm, { name }: AttachedVolume): boolean =>
  (status?.attachedVolumes ?? []).some((one) => one.name === name && one.phase === 'Attached')

const podMissing = 'PodMissing'

/** The pod that the status names is gone. */
function replace(observed: ObservedAttachments, before: AttachmentPod, bare: AttachmentPod): Step {
  // One that its kubelet refused was deleted at once, and another is created later.
  const isExplained = before.reason !== podTerminating && before.reason !== podMissing
  if (isKnownToHaveEnded(observed, before)) return { entry: { ...bare, ...(isExplained ? explanationOf(before) : {}) } }
  const reason = podMissing
  const message = `the pod ${bare.podName} no longer exists; another is created when its node confirms that it has ended`
  const entry = { ...bare, ...pickUID(before), missing: true, reason, message }
  return { entry, actions: warn(before, entry) }
}

const pickClaim = ({ claimUID }: Partial<AttachmentPod> = {}) => (claimUID === undefined ? {} : { claimUID })

/** A claim is not deleted while a pod on a node uses it, until the pod has ended. */
function claimOf({ claims }: ObservedAttachments, bare: AttachmentPod, pod: OwnPod): Pick<AttachmentPod, 'claimUID'> {
  const claim = claims.get(bare.claimName)
  return bare.claimUID !== undefined || claim === undefined || hasEnded(pod) ? {} : { claimUID: claim.metadata.uid }
}

/** Why a guest that has the disk must not get that of this claim in its place. */
function replacedClaim(vm: Vm, { name, claimName, claimUID }: AttachmentPod, claim: Persisted<Claim>) {
  if (!hasDisk(vm, { name, claimName }) || claim.metadata.uid === claimUID) return undefined
  // The guest has got it later than both.
  if (claimUID === undefined && isOlder(claim.metadata, vm.metadata)) return undefined
  const why =
    claimUID === undefined
      ? `an earlier version of the controller has not noted whether persistentvolumeclaim "${claimName}" is the one whose disk the guest has`
      : `persistentvolumeclaim "${claimName}" was deleted and created again, and the guest has the disk of the one before`
  const message = `${why}: unmount it in the guest, detach the volume, and attach it again`
  return { reason: 'ClaimReplaced', message }
}

const pickUID = ({ podUID }: AttachmentPod) => (podUID === undefined ? {} : { podUID })

/** Whether the containers of a pod that is gone have ended. Those on the node of a VM that has ended do not matter. */
const isKnownToHaveEnded = (
  { vm, endedPods }: Pick<ObservedAttachments, 'vm' | 'endedPods'>,
  { name, podUID }: AttachmentPod,
): boolean =>
  podUID === undefined ||
  endedPods.has(podUID) ||
  (vm.status?.attachedVolumes ?? []).some((one) => one.name === name && one.endedPodUID === podUID)

function create(
  observed: ObservedAttachments,
  volume: AttachedVolume,
  before: AttachmentPod,
  bare: AttachmentPod,
): Step {
  const { vm, claims, image } = observed
  if (!mayAttach(vm)) return before.claimUID === undefined ? {} : { entry: before }
  const { claimName } = bare
  const claim = claims.get(claimName)
  const wait = (reason: string, message: string): Step => {
    const entry = { ...bare, reason, message }
    return { entry, actions: [...warn(before, entry), { do: 'requeueAfter', afterMs: claimPollMs }] }
  }
  if (claim === undefined) return wait('ClaimNotFound', `persistentvolumeclaim "${claimName}" not found`)
  const replaced = replacedClaim(vm, bare, claim)
  if (replaced !== undefined) return wait(replaced.reason, replaced.message)
  if (claim.metadata.deletionTimestamp !== undefined) {
    return wait('ClaimTerminating', `persistentvolumeclaim "${claimName}" is being deleted`)
  }
  if (awaitsFilling(claim)) {
    const message = `persistentvolumeclaim "${claimName}" is not filled yet: the first VM of the config or group that it was created for does that`
    return wait('ClaimNotFilled', message)
  }
  const rival = rivalryFor(observed, claimName)
  if (rival !== undefined) return wait(rival.reason, rival.message)
  const pod = attachmentPod(vm, volume, { image, claim })
  // The reason of an earlier attempt stays until the pod exists. But one that waits for another VM now asks itself.
  const entry = before.reason === claimInUse ? bare : before
  return { entry, actions: [{ do: 'createAttachmentPod', entry, pod }] }
}

/**
 * Whether the claim is the VM's, so that its pod can be named: the guest has the disk, or the VM asks for the claim, and
 * of all that asked before, none has it or continues to ask.
 *
 * The watch delivers all VMs in the order in which they were written. So of two VMs that ask, the one whose request was
 * written later sees that of the other, however late the watch is. The status is written only if it has not changed
 * since, so both cannot be named.
 */
const isGranted = ({ vm, rivals, isDelivered }: ObservedAttachments, volume: AttachedVolume): boolean =>
  keepsDisk(vm, volume) || (asksFor(vm, volume) && isDelivered && !rivals.has(volume.persistentVolumeClaim.claimName))

/**
 * A pod that the controller did not create must never be named in the status, nor one of another claim than the guest
 * has. Without a node, it would serve a claim that takes the place of this one.
 */
function recognize(
  observed: ObservedAttachments,
  volume: AttachedVolume,
  before: AttachmentPod,
  bare: AttachmentPod,
  pod: OwnPod,
): Step {
  const { vm, claims, image } = observed
  const rival = rivalryFor(observed, bare.claimName)
  if (pod.metadata.deletionTimestamp !== undefined) return { entry: { ...bare, ...(rival ?? ending(bare.podName)) } }
  if (!mayAttach(vm)) return { entry: before }
  const claim = claims.get(bare.claimName)
  const difference =
    claim === undefined ? 'its claim' : differenceFrom(attachmentPod(vm, volume, { image, claim }), pod)
  // What an earlier version has created is taken for the guest's.
  const replaced = claim && bare.claimUID !== undefined ? replacedClaim(vm, bare, claim) : undefined
  const obstacle = replaced ?? rival
  if (obstacle !== undefined) {
    const entry = { ...bare, ...obstacle }
    return { entry, actions: [...warn(before, entry), { do: 'deleteAttachmentPod', pod }] }
  }
  if (claim !== undefined && difference === undefined) {
    if (pod.spec.nodeName === undefined) {
      const entry = { ...bare, ...troubleOf(pod) }
      // An older VM can ask meanwhile, and waits until this one, which asks, has noticed.
      const isAsking = entry.reason === undefined
      const next = isAsking ? ([{ do: 'requeueAfter', afterMs: claimPollMs }] as const) : []
      return { entry, actions: [...warn(before, entry), ...next] }
    }
    if (!isGranted(observed, volume)) {
      // The delivery is an event of the VM.
      const afterMs = observed.isDelivered ? givingWayMs : claimPollMs
      return { entry: bare, actions: [{ do: 'requeueAfter', afterMs }] }
    }
    const entry = { ...bare, podUID: pod.metadata.uid, claimUID: claim.metadata.uid, ...troubleOf(pod) }
    return { entry, actions: warn(before, entry) }
  }
  // Of an earlier attachment, or of a controller of another version.
  const message = `the pod ${bare.podName} differs from the one that the controller would create: ${difference}; it is created again`
  return {
    entry: { ...bare, reason: 'PodNotOwn', message },
    actions: [{ do: 'deleteAttachmentPod', pod, createAfterMs: refusedMs }],
  }
}

/** The volume is not in the spec any more, or the VM has ended. */
function release(observed: ObservedAttachments, entry: AttachmentPod): Step {
  const { vm, pods } = observed
  const pod = pods.find(({ metadata }) => metadata.name === entry.podName)
  const isUsed = (vm.status?.attachedVolumes ?? []).some(
    ({ name, claimName, phase }) =>
      name === entry.name && claimName === entry.claimName && phase !== 'Failed' && entry.missing !== true,
  )
  if (isUsed && !isOver(observed)) return { entry }
  if (pod === undefined) {
    if (isOver(observed) || isKnownToHaveEnded(observed, entry)) return {}
    return { entry: { ...entry, missing: true } }
  }
  // The watch may never have had the pod, and then has no event of its end.
  const again = { do: 'requeueAfter', afterMs: claimPollMs } as const
  if (pod.metadata.deletionTimestamp === undefined)
    return { entry, actions: [{ do: 'deleteAttachmentPod', pod }, again] }
  // One that is not named serves nothing, and its VM asks for nothing any more.
  const reason = 'PodTerminating'
  const message = `the pod ${entry.podName} is being deleted`
  return { entry: entry.podUID === undefined ? { ...entry, reason, message } : entry, actions: [again] }
}

/** The status with these entries, if they differ from the current ones. */
function updateEntries({ status = {} }: Vm, entries: readonly AttachmentPod[]): AttachmentAction[] {
  const { attachmentPods: before = [], ...others } = status
  // The handler does not write the status of a VM that has ended.
  const { attachedVolumes: _, ...ended } = others
  const rest = isFinished({ status }) && entries.length === 0 ? ended : others
  if (isDeepStrictEqual(before, entries) && Object.keys(rest).length === Object.keys(others).length) return []
  return [{ do: 'updateStatus', status: entries.length === 0 ? rest : { ...rest, attachmentPods: entries } }]
}

/** Why the pod of an entry could not be created. */
export interface RefusedPod {
  readonly entry: AttachmentPod
  readonly reason: string
  readonly message: string
}

/** The API server refused these pods: a quota, a policy, a terminating namespace. */
export function refusedAttachments(vm: Vm, refused: readonly RefusedPod[]): AttachmentAction[] {
  if (refused.length === 0) return []
  const after = refused.map(({ entry, reason, message }) => ({ ...entry, reason, message: textOf(message) }))
  const entries = entriesOf(vm).map((one) => after.find(({ podName }) => podName === one.podName) ?? one)
  const warnings = refused.flatMap(({ entry }, index) => warn(entry, after[index] ?? entry))
  return [...warnings, ...updateEntries(vm, entries), { do: 'requeueAfter', afterMs: refusedMs }]
}

/** Once: from then on the status has it. */
const warn = (before: AttachmentPod, { name, reason, message = '' }: AttachmentPod): AttachmentAction[] =>
  reason === undefined || reason === podTerminating || before.reason === reason
    ? []
    : [{ do: 'recordEvent', type: 'Warning', reason, message: `attached volume "${name}": ${message}` }]

/** Users delete pods, and nodes are drained. */
const podTerminating = 'PodTerminating'

const ending = (podName: string) => ({
  reason: podTerminating,
  message: `the pod ${podName} is being deleted; another is created when it has ended`,
})

/** Why a pod does not serve its claim. Its starts are no trouble. */
function troubleOf(pod: OwnPod): { readonly reason?: string; readonly message?: string } {
  const { metadata, status = {} } = pod
  if (metadata.deletionTimestamp !== undefined) return ending(metadata.name)
  const scheduled = status.conditions?.find(({ type }) => type === 'PodScheduled')
  if (scheduled?.status === 'False') {
    return { reason: scheduled.reason ?? 'Unschedulable', message: textOf(scheduled.message ?? '') }
  }
  if (isTerminal(pod)) return { reason: status.reason ?? 'PodEnded', message: textOf(status.message ?? 'it has ended') }
  const [container] = status.containerStatuses ?? []
  const { waiting, terminated } = container?.state ?? {}
  const last = lastLine((terminated ?? container?.lastState?.terminated)?.message)
  // The wait before it is started again grows: its number would be a write each time.
  if (terminated !== undefined || waiting?.reason === 'CrashLoopBackOff') {
    return { reason: 'VolumeUnavailable', message: textOf(last ?? `the pod ${metadata.name} has ended`) }
  }
  if (waiting === undefined || starting.includes(waiting.reason ?? '')) return {}
  return { reason: waiting.reason ?? 'Waiting', message: textOf(waiting.message ?? '') }
}

const starting = ['', 'ContainerCreating', 'PodInitializing']

/** The status has up to 32 of them. */
const longestText = 512

const textOf = (text: string): string => shorten(statusMessage(text), longestText)
