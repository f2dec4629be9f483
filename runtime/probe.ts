import type { VirtualMachine } from '../api/virtual-machine.ts'
import { findCondition } from './condition.ts'

/**
 * The condition of a VM with a readiness probe by which the controller, which sees pods, tells the handler, which writes
 * Ready, whether the kubelet's probe succeeds.
 */
export const probeCondition = 'ProbeSucceeded'

/** Whether the VM's readiness probe, if it has one, does not succeed. */
export const isUnready = ({ spec, status }: VirtualMachine): boolean =>
  spec.readinessProbe !== undefined && findCondition(status?.conditions, probeCondition)?.status !== 'True'
