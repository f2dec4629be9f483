import type { AttachmentPod } from '../api/attached-volume.ts'
import { hasFinalizer } from './finalizer.ts'
import { podGraceSeconds } from './launcher-pod.ts'
import { writeStatus } from './vm-action.ts'
import type { Action } from './vm-action.ts'
import type { LauncherPod, Observed } from './vm-observed.ts'
import { podStuck, stuckStatus, volumesStuckStatus } from './vm-status.ts'
import { confirmEnd, reportUnreachable } from './vm-unobserved.ts'

/** A pod that exceeds its grace period by this much is on a node that does not respond. */
const stuckMs = 60_000

/** The VM is deleted: its pods go first, then the finalizer. */
export function terminate(observed: Observed): Action[] {
  const { vm, pods, elapsed } = observed
  if (pods.length === 0) {
    if (!hasFinalizer(vm)) return []
    const waiting = confirmEnd(observed)
    if (waiting !== undefined) return waiting
    // A VM of this name must not use the claims while they are still served to this one.
    const left = vm.status?.attachmentPods ?? []
    return left.length > 0 ? awaitVolumePods(observed, left) : [{ do: 'removeFinalizer' }]
  }
  const live = pods.filter(({ metadata }) => metadata.deletionTimestamp === undefined)
  if (live.length > 0) {
    return live.flatMap((pod): Action[] => [
      { do: 'deletePod', pod },
      {
        do: 'recordEvent',
        type: 'Normal',
        reason: 'SuccessfulDelete',
        message: `Deleted pod ${pod.metadata.name}`,
      },
    ])
  }
  const grace = pods.map(({ metadata }) => metadata.deletionGracePeriodSeconds ?? podGraceSeconds(vm))
  const leftMs = Math.max(...grace) * 1000 + stuckMs - (elapsed.get('podDeleting') ?? 0)
  return leftMs > 0 ? [{ do: 'requeueAfter', afterMs: leftMs }] : reportStuck(observed, pods)
}

/** They end within a second once QEMU has ended, whatever their grace period is. */
function awaitVolumePods({ vm, elapsed, now }: Observed, left: readonly AttachmentPod[]): Action[] {
  const leftMs = stuckMs - (elapsed.get('volumePods') ?? 0)
  if (leftMs > 0) return [{ do: 'requeueAfter', afterMs: leftMs }]
  const names = left.map(({ podName }) => podName).join(', ')
  const message = `the pod ${names} of an attached volume on node ${vm.status?.nodeName} has not ended; the VM stays until it has`
  const update = writeStatus(vm, volumesStuckStatus(vm, message, now))
  if (update.length === 0) return []
  return [...update, { do: 'recordEvent', type: 'Warning', reason: podStuck, message }]
}

function reportStuck(observed: Observed, pods: readonly LauncherPod[]): Action[] {
  const { vm, node, now } = observed
  const names = pods.map(({ metadata, spec }) => `${metadata.name} on node ${spec.nodeName ?? '(none)'}`).join(', ')
  const message = `the pod ${names} has not ended within its grace period; the VM stays until it has`
  const doubts = node === 'silent' ? reportUnreachable(observed) : []
  const status = doubts.find((action) => action.do === 'updateStatus')?.status ?? vm.status
  const known = status === undefined ? vm : { ...vm, status }
  return [
    ...writeStatus(vm, stuckStatus(known, message, now)),
    ...doubts.filter((action) => action.do !== 'updateStatus'),
  ]
}
