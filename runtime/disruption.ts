/**
 * The condition of VMs and, by the same name, of pods: something other than the guest ends it. The controller sets it
 * with the pod's own reason. A kubelet that evicts reports its reason only after the containers have ended, so the
 * handler sets it with the guest's end, and the controller replaces the reason when it knows the pod's.
 */
export const disruptionTarget = 'DisruptionTarget'

/** The handler's reason: the launcher was asked to terminate although its VM was not deleted. */
export const podTerminated = 'PodTerminated'
