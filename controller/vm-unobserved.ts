import { isEndAwaited, isEndConfirmed, isLauncherPresent } from '../runtime/pod-end.ts'
import { longestPodGraceSeconds, podName } from './launcher-pod.ts'
import { writeStatus } from './vm-action.ts'
import type { Action } from './vm-action.ts'
import { isHandedOver } from './vm-observed.ts'
import type { Observed } from './vm-observed.ts'
import { awaitingHandlerStatus, unknownStatus } from './vm-status.ts'

/**
 * How long a handler's report of Running counts while its node does not respond. Without it, the controller and the
 * handler would overwrite each other's phase forever.
 */
const believedMs = 300_000
/**
 * How long to wait for a handler that reports nothing, beyond the grace period of the pod. Within it, a kubelet kills
 * what is left of a force-deleted pod.
 */
const confirmationMs = 60_000

/**
 * What to do before concluding that the launcher of a missing pod has ended; undefined if there is nothing to wait for.
 *
 * A kubelet removes a pod after its containers. A forced deletion removes it while they run, and only the handler of
 * the node can observe that. A phase does not replace its answer: that a guest has ended is what its launcher claims.
 *
 * On a node that does not respond, a forced deletion is the operator's statement that the machine is off. So is the
 * deletion of its Node.
 */
export function confirmEnd(observed: Observed): Action[] | undefined {
  const { vm, node, isEndObserved, elapsed, now } = observed
  if (!isHandedOver(vm) || isEndObserved || isEndConfirmed(vm) || node === 'gone') return undefined
  // A pod that disappeared while the node responded: its deletion states nothing about the machine.
  if (node === 'silent') return isEndAwaited(vm) ? reportUnreachable(observed) : undefined
  if (isLauncherPresent(vm)) return []
  const leftMs = longestPodGraceSeconds(vm) * 1000 + confirmationMs - (elapsed.get('podMissing') ?? 0)
  if (leftMs <= 0) return undefined
  return [...writeStatus(vm, awaitingHandlerStatus(vm, podName(vm), now)), { do: 'requeueAfter', afterMs: leftMs }]
}

/** The guest may continue to run unobserved: the phase is Unknown until the handler is back and reports. */
export function reportUnreachable({ vm, elapsed, now }: Observed): Action[] {
  const { phase, nodeName } = vm.status ?? {}
  if (phase !== 'Running') return []
  const believedForMs = elapsed.get('runningAgain')
  if (believedForMs !== undefined && believedForMs < believedMs) {
    return [{ do: 'requeueAfter', afterMs: believedMs - believedForMs }]
  }
  const reason = 'NodeUnreachable'
  const message = `the node ${nodeName} does not respond; the VM may still run there, and does not start elsewhere`
  return [
    { do: 'updateStatus', status: unknownStatus(vm, reason, message, now) },
    { do: 'recordEvent', type: 'Warning', reason, message },
  ]
}
