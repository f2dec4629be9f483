import {
  longestAttachmentMessage,
  isSameAttachment,
  mostAttached,
  mostReported,
  type AttachedVolume,
  type AttachedVolumeStatus,
  type AttachmentPod,
} from '../api/attached-volume.ts'
import type { VirtualMachine } from '../api/virtual-machine.ts'
import { statusMessage } from '../runtime/condition.ts'
import type { DomainReport, VolumeReport, VolumeRequest } from '../runtime/launcher-api.ts'

/** What the handler has found of the pods that serve claims to a launcher, by their UIDs. */
export interface AttachmentSockets {
  /** The launcher has the socket. */
  readonly placed: ReadonlySet<string>
  /** The node has nothing of the pod any more. */
  readonly ended: ReadonlySet<string>
  /** Why the launcher does not have the socket. */
  readonly failures?: ReadonlyMap<string, string>
}

export const noSockets: AttachmentSockets = { placed: new Set(), ended: new Set() }

/** The first version of a launcher that attaches volumes. */
export const withVolumes = 7

export const attachmentPodsOf = ({ status }: VirtualMachine): readonly AttachmentPod[] => status?.attachmentPods ?? []

const volumesOf = ({ spec }: VirtualMachine): readonly AttachedVolume[] =>
  (spec.attachedVolumes ?? []).slice(0, mostAttached)

/**
 * The volumes that the launcher is to have attached. One whose pod is gone stays as it is: QEMU waits for another pod.
 * Which pod serves a claim is known only from the status, where the controller has named it.
 */
function requestedVolumes(vm: VirtualMachine, report: DomainReport, { placed }: AttachmentSockets): VolumeRequest[] {
  return volumesOf(vm).flatMap((volume) => {
    const { name, persistentVolumeClaim: claim, target: { dev, bus } = {}, serial } = volume
    const { podUID } = attachmentPodsOf(vm).find((entry) => isSameAttachment(volume, entry)) ?? {}
    const isPlaced = podUID !== undefined && placed.has(podUID)
    const serving = isPlaced ? podUID : reportOf(volume, report)?.podUID
    if (serving === undefined || dev === undefined || bus === undefined) return []
    const { claimName, readOnly = false } = claim
    return [
      {
        name,
        claimName,
        ...(readOnly ? { readOnly } : {}),
        podUID: serving,
        dev,
        bus,
        ...(serial === undefined ? {} : { serial }),
      },
    ]
  })
}

const reportOf = (volume: AttachedVolume, { volumes = [] }: DomainReport): VolumeReport | undefined =>
  volumes.find((one) => isSameAttachment(volume, one))

const keyOf = ({ name, claimName, readOnly = false, podUID, dev, bus }: Omit<VolumeReport, 'phase'>): string =>
  [name, claimName, readOnly, podUID, dev, bus].join(' ')

/** What to request of the launcher; undefined if it has been requested. */
export function volumesToRequest(
  vm: VirtualMachine,
  report: DomainReport,
  sockets: AttachmentSockets,
): VolumeRequest[] | undefined {
  const { phase, version = 0, volumes = [] } = report
  if (phase !== 'Running' || version < withVolumes) return undefined
  const wanted = requestedVolumes(vm, report, sockets)
  const requested = volumes.filter((one) => one.phase !== 'Detaching').map(keyOf)
  const isRequested = wanted.length === requested.length && wanted.every((one) => requested.includes(keyOf(one)))
  return isRequested ? undefined : wanted
}

/** `status.attachedVolumes`: those of the spec, and those of the controller's pods that the launcher still has. */
export function attachedVolumesOf(
  vm: VirtualMachine,
  report: DomainReport,
  { ended, failures = new Map() }: AttachmentSockets,
): AttachedVolumeStatus[] {
  const { volumes = [], exit } = report
  if (exit !== undefined) return []
  const entries = attachmentPodsOf(vm)
  const inSpec = volumesOf(vm).map((volume) => statusOf(vm, volume, report, failures))
  const names = new Set(inSpec.map(({ name }) => name))
  // A launcher that a guest has taken over reports what it likes.
  const leaving = volumes
    .filter(({ name, claimName }) => entries.some((one) => one.name === name && one.claimName === claimName))
    .filter(({ name }) => !names.has(name))
    .map(leavingStatus)
  const all = [...inSpec, ...leaving]
  const gone = new Map(
    entries.flatMap(({ name, podUID, missing }) =>
      missing === true && podUID !== undefined && ended.has(podUID) ? [[name, podUID] as const] : [],
    ),
  )
  const others = entries.filter(({ name }) => gone.has(name) && !all.some((one) => one.name === name))
  const detached = others.map(({ name, claimName }) => ({ name, claimName, phase: 'Detaching' as const }))
  return withinLimit([...all, ...detached], entries).map((one) => {
    const endedPodUID = gone.get(one.name)
    return endedPodUID === undefined ? one : { ...one, endedPodUID }
  })
}

/** Without those for which the status has no room, which have no pod yet: it could not be written with more. */
function withinLimit(
  volumes: readonly AttachedVolumeStatus[],
  entries: readonly AttachmentPod[],
): readonly AttachedVolumeStatus[] {
  let excess = volumes.length - mostReported
  if (excess <= 0) return volumes
  return volumes.filter((volume) => entries.some(({ name }) => name === volume.name) || excess-- <= 0)
}

const leavingStatus = ({ name, claimName, dev, bus, reason, message }: VolumeReport): AttachedVolumeStatus => ({
  name,
  claimName,
  phase: 'Detaching',
  ...explained(reason, message),
  target: { dev, bus },
})

function statusOf(
  vm: VirtualMachine,
  volume: AttachedVolume,
  report: DomainReport,
  failures: ReadonlyMap<string, string>,
): AttachedVolumeStatus {
  const { name, persistentVolumeClaim, target = {} } = volume
  const { claimName } = persistentVolumeClaim
  const { volumes = [], version = 0 } = report
  const other = volumes.find((one) => one.name === name && !isSameAttachment(volume, one))
  if (other !== undefined) return leavingStatus(other)
  const found = reportOf(volume, report)
  // Its pod can be ending while the guest still has the disk.
  const entry = attachmentPodsOf(vm).find((one) => isSameAttachment(volume, one))
  const reason = found?.reason ?? entry?.reason
  const message = found?.reason === undefined ? entry?.message : found.message
  if (version < withVolumes) {
    const outdated = `the launcher (protocol version ${version}) cannot attach volumes; they are attached after the next start of the VM`
    return { name, claimName, phase: 'Attaching', ...explained('LauncherOutdated', outdated), target }
  }
  const failure = failures.get(entry?.podUID ?? '')
  if (found === undefined && reason === undefined && failure !== undefined) {
    return { name, claimName, phase: 'Attaching', ...explained('SocketUnavailable', failure), target }
  }
  return { name, claimName, phase: found?.phase ?? 'Attaching', ...explained(reason, message), target }
}

const explained = (reason: string | undefined, message: string | undefined) => ({
  ...(reason === undefined ? {} : { reason }),
  ...(message === undefined ? {} : { message: statusMessage(message, longestAttachmentMessage) }),
})

/** A sentence for each volume that is not attached, or not detached, although that was tried. */
export const troublesOf = (volumes: readonly AttachedVolumeStatus[]): string[] =>
  volumes.flatMap(({ name, phase, reason, message = '' }) =>
    phase === 'Attached' || reason === undefined ? [] : [`volume "${name}": ${message || reason}`],
  )

interface AttachmentEvent {
  readonly type: 'Normal' | 'Warning'
  readonly reason: string
  readonly message: string
}

/** An event for each volume whose phase, or the reason for it, has changed. */
export function attachmentEvents(
  before: readonly AttachedVolumeStatus[],
  after: readonly AttachedVolumeStatus[],
): AttachmentEvent[] {
  const known = new Map(before.map((one) => [one.name, one]))
  const changed = after.flatMap(({ name, claimName, phase, reason, message = '', target }): AttachmentEvent[] => {
    const was = known.get(name)
    if (was?.phase === phase && was.reason === reason) return []
    if (phase === 'Attached' && was?.phase !== 'Attached') {
      const text = `Attached the claim ${claimName} as ${target?.dev}`
      return [{ type: 'Normal', reason: 'VolumeAttached', message: text }]
    }
    // The controller has recorded what is about its pod.
    const isOwn = phase === 'Failed' || phase === 'Detaching' || reason === 'LauncherOutdated'
    if (reason === undefined || !isOwn) return []
    return [{ type: 'Warning', reason, message: `attached volume "${name}": ${message}` }]
  })
  const gone = before.filter(({ name, phase }) => phase === 'Detaching' && !after.some((one) => one.name === name))
  const detached = gone.map(({ claimName }): AttachmentEvent => ({
    type: 'Normal',
    reason: 'VolumeDetached',
    message: `Detached the claim ${claimName}`,
  }))
  return [...changed, ...detached]
}

/** The socket of a pod that starts appears without an event. */
const startingPollMs = 2000
/** Nor does that of a container that was started again, for which QEMU waits. */
const runningPollMs = 5000

/** When to look for sockets again; undefined if no pod has one. */
export function attachmentPollMs(vm: VirtualMachine, { placed }: AttachmentSockets): number | undefined {
  const pods = attachmentPodsOf(vm).filter(({ podUID, missing }) => podUID !== undefined && missing !== true)
  if (attachmentPodsOf(vm).some(({ missing }) => missing === true)) return startingPollMs
  if (pods.length === 0) return undefined
  const isStarting = pods.some(({ podUID = '', reason }) => !placed.has(podUID) && reason === undefined)
  return isStarting ? startingPollMs : runningPollMs
}
