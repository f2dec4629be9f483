import type { VirtualMachine } from '../api/virtual-machine.ts'
import { findCondition } from './condition.ts'

/**
 * The condition of a VM by which controller and handler agree that a launcher has ended whose pod was removed without
 * an observed end, as a forced deletion does:
 *
 *     controller: PodEnded=Unknown, AwaitingHandler   the pod does not exist; does its launcher?
 *     handler:    PodEnded=True,    LauncherAbsent    the pod has no volume of a launcher on this node
 *
 * The kubelet removes the socket's volume only after the containers have ended. The controller waits for the handler
 * for a limited time.
 */
export const podEndedCondition = 'PodEnded'

/** Whether the controller asks the handler about the launcher. */
export function isEndAwaited({ status }: VirtualMachine): boolean {
  return findCondition(status?.conditions, podEndedCondition)?.reason === 'AwaitingHandler'
}

/** Whether the handler confirmed the end of the launcher. */
export function isEndConfirmed({ status }: VirtualMachine): boolean {
  return findCondition(status?.conditions, podEndedCondition)?.status === 'True'
}
