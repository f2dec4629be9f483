import type { VirtualMachine } from '../api/virtual-machine.ts'
import { findCondition } from './condition.ts'

/**
 * The condition of a VM by which controller and handler agree that a launcher has ended whose pod was removed without
 * an observed end, as a forced deletion does:
 *
 *     controller: PodEnded=Unknown, AwaitingHandler   the pod does not exist; does its launcher?
 *     handler:    PodEnded=False,   LauncherPresent   the pod has a volume of a launcher on this node
 *     handler:    PodEnded=True,    LauncherAbsent    it has none
 *
 * The kubelet removes the socket's volume only after the containers have ended. The controller waits for an answer for
 * a limited time, but as long as the handler sees the launcher. What the launcher reports meanwhile is no answer, even
 * if it ends the VM.
 */
export const podEndedCondition = 'PodEnded'

const reasonOf = ({ status }: VirtualMachine) => findCondition(status?.conditions, podEndedCondition)?.reason

/** Whether the controller asks the handler about the launcher. */
export const isEndAwaited = (vm: VirtualMachine): boolean => reasonOf(vm) === 'AwaitingHandler' || isLauncherPresent(vm)

/** Whether the handler saw the launcher after the pod was removed. */
export const isLauncherPresent = (vm: VirtualMachine): boolean => reasonOf(vm) === 'LauncherPresent'

/** Whether the handler confirmed the end of the launcher. */
export function isEndConfirmed({ status }: VirtualMachine): boolean {
  return findCondition(status?.conditions, podEndedCondition)?.status === 'True'
}
