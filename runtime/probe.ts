import { probeNames, type Probes } from '../api/probe.ts'
import type { VirtualMachine } from '../api/virtual-machine.ts'
import { findCondition } from './condition.ts'

/**
 * The condition with which the controller, which watches pods, reports to the handler, which writes Ready, whether the
 * kubelet's probe of a VM succeeds.
 */
export const probeCondition = 'ProbeSucceeded'

/**
 * The exit code of a launcher with a liveness or startup probe that was asked to terminate: 128 and SIGTERM. Unless
 * something disrupts its pod, it was the kubelet, because the probe failed.
 */
export const terminatedExitCode = 143

/** The reason of the condition while the startup probe has not succeeded yet. */
export const startupPending = 'StartupProbePending'

/** Whether the kubelet ends the guest when a probe fails. */
export const hasEndingProbe = ({ livenessProbe, startupProbe }: Probes): boolean =>
  livenessProbe !== undefined || startupProbe !== undefined

/** Whether the pod is ready only when a probe succeeds. */
export const hasReadiness = ({ readinessProbe, startupProbe }: Probes): boolean =>
  readinessProbe !== undefined || startupProbe !== undefined

/** The reason of a VM that was ended because a probe failed: the other probes begin when the startup probe succeeds. */
export function failedProbeOf({ spec, status }: VirtualMachine): 'LivenessProbeFailed' | 'StartupProbeFailed' {
  if (spec.startupProbe === undefined) return 'LivenessProbeFailed'
  const probed = findCondition(status?.conditions, probeCondition)
  const hasStarted = probed !== undefined && probed.reason !== startupPending
  return hasStarted && spec.livenessProbe !== undefined ? 'LivenessProbeFailed' : 'StartupProbeFailed'
}

/** Why the VM is not ready although its guest runs, by its probes; undefined if they succeed. */
export function unreadinessOf({ spec, status }: VirtualMachine): { reason: string; message: string } | undefined {
  const probed = findCondition(status?.conditions, probeCondition)
  if (!hasReadiness(spec) || probed?.status === 'True') return undefined
  const isPending = spec.startupProbe !== undefined && (probed === undefined || probed.reason === startupPending)
  if (isPending) return { reason: startupPending, message: 'the startup probe has not succeeded yet' }
  return { reason: 'ProbeFailing', message: 'the readiness probe does not succeed' }
}

const present = Object.freeze({})

/** Caches store only which probes there are. */
export const slimProbes = (probes: Probes): Probes =>
  Object.fromEntries(probeNames.filter((name) => probes[name] !== undefined).map((name) => [name, present]))
