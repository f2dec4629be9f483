import type { VirtualMachine } from '../api/virtual-machine.ts'
import { findCondition } from './condition.ts'

/**
 * The condition with which the controller, which watches pods, reports to the handler, which writes Ready, whether the
 * kubelet's probe of a VM succeeds.
 */
export const probeCondition = 'ProbeSucceeded'

/**
 * The exit code of a launcher with a liveness probe that was asked to terminate: 128 and SIGTERM. Unless something
 * disrupts its pod, it was the kubelet, because the probe failed.
 */
export const terminatedExitCode = 143

/** The reason of a VM whose liveness probe failed. */
export const livenessProbeFailed = 'LivenessProbeFailed'

/** Whether the VM's readiness probe, if it has one, does not succeed. */
export const isUnready = ({ spec, status }: VirtualMachine): boolean =>
  spec.readinessProbe !== undefined && findCondition(status?.conditions, probeCondition)?.status !== 'True'
