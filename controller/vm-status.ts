import { isDeepStrictEqual } from 'node:util'
import type { Cause } from '../api/cause.ts'
import { canonical } from '../api/domain/canonical.ts'
import { integerOf } from '../api/domain/scalar-value.ts'
import { firstTexts } from '../api/shorten.ts'
import type { Phase, VirtualMachine, VirtualMachineStatus } from '../api/virtual-machine.ts'
import { findCondition, setCondition, statusMessage } from '../runtime/condition.ts'
import type { NewCondition } from '../runtime/condition.ts'
import { disruptionTarget } from '../runtime/disruption.ts'
import { agentCondition } from '../runtime/guest-info.ts'
import { enterPhase } from '../runtime/phase-times.ts'
import { podEndedCondition } from '../runtime/pod-end.ts'
import { probeCondition, startupPending } from '../runtime/probe.ts'
import type { Persisted } from '../runtime/resource.ts'
import { pick } from '../runtime/slim.ts'
import type { Disruption } from './disruption.ts'
import type { Pod } from './pod.ts'

type Vm = Persisted<VirtualMachine>
type Asserted = Omit<NewCondition, 'observedGeneration'>

/** How a VM ends, as the controller writes it. */
export interface Ending {
  readonly phase: 'Succeeded' | 'Failed'
  readonly reason: string
  readonly message: string
  readonly podUID?: string
  /** Whether it ended for a reason outside of the guest and its launcher. */
  readonly isDisrupted?: boolean
}

/** The reason of a VM that is not removed because a pod of it does not end. */
export const podStuck = 'PodStuckTerminating'

/** The reason of a VM that waits until presets, or its user, change. */
export const completionRefused = 'CompletionRefused'

/** Causes in the message of a condition; kubectl prints a message in one line. */
const mostCauses = 5

export function isChanged(vm: Vm, status: VirtualMachineStatus): boolean {
  return !isDeepStrictEqual(vm.status ?? {}, status)
}

/** Completion refused the VM: nothing starts. */
export function refusedStatus(vm: Vm, causes: readonly Cause[], now: string): VirtualMachineStatus {
  const message = causesMessage(causes)
  const ready = 'the VM does not start until its spec is complete'
  return next(vm, { phase: 'Pending', reason: completionRefused, message }, now, [
    { type: 'Completed', status: 'False', reason: completionRefused, message },
    { type: 'Ready', status: 'False', reason: 'NotCompleted', message: ready },
  ])
}

/** The pod does not exist and cannot be created now, for `reason` and `message`. */
export function pendingStatus(vm: Vm, reason: string, message: string, now: string): VirtualMachineStatus {
  return next(vm, { phase: 'Pending', reason, message }, now, [
    completed,
    { type: 'PodScheduled', status: 'False', reason, message },
    { type: 'Ready', status: 'False', reason: 'PodNotScheduled', message: 'the launcher pod cannot be created yet' },
  ])
}

/**
 * The kubelet has rejected the pod: it ran nothing, so the VM can have another one, and no handler may act on it until
 * then.
 */
export function rejectedStatus(vm: Vm, reason: string, message: string, now: string): VirtualMachineStatus {
  const { podUID: _pod, nodeName: _node, ...rest } = pendingStatus(vm, reason, message, now)
  return rest
}

/** The pod exists and is not scheduled. */
export function schedulingStatus(
  vm: Vm,
  pod: Persisted<Pod>,
  waits: { reason: string; message: string },
  now: string,
): VirtualMachineStatus {
  return next(vm, { phase: 'Scheduling', podUID: pod.metadata.uid, ...waits }, now, [
    completed,
    { type: 'PodScheduled', status: 'False', ...waits },
    { type: 'Ready', status: 'False', reason: 'PodNotScheduled', message: 'the launcher pod is not scheduled yet' },
  ])
}

/** The pod is scheduled. From this status on, the VM has no other pod, and the handler of its node acts. */
export function scheduledStatus(
  vm: Vm,
  pod: Persisted<Pod>,
  nodeName: string,
  presets: readonly string[],
  now: string,
): VirtualMachineStatus {
  const podUID = pod.metadata.uid
  const fields = { phase: 'Scheduled' as const, podUID, nodeName, ...columnsOf(vm, presets) }
  const waiting = 'the handler has not seen the VM yet'
  return next(vm, fields, now, [
    completed,
    { type: 'PodScheduled', status: 'True', reason: 'Scheduled', message: `on node ${nodeName}` },
    { type: 'Ready', status: 'False', reason: 'GuestNotRunning', message: 'the launcher is starting' },
    { type: 'Synchronized', status: 'False', reason: 'AwaitingHandler', message: waiting },
  ])
}

/** The container of the launcher cannot start. */
export function troubledStatus(vm: Vm, reason: string, message: string, now: string): VirtualMachineStatus {
  return next(vm, {}, now, [{ type: 'Ready', status: 'False', reason, message }])
}

/** The state of the guest cannot be observed. */
export function unknownStatus(vm: Vm, reason: string, message: string, now: string): VirtualMachineStatus {
  return next(vm, { phase: 'Unknown', reason, message }, now, [{ type: 'Ready', status: 'Unknown', reason, message }])
}

/** Something outside of the guest ends the pod; the guest may still run. */
export function disruptedStatus(vm: Vm, disruption: Disruption, now: string): VirtualMachineStatus {
  return next(vm, {}, now, [{ type: disruptionTarget, status: 'True', ...disruption }])
}

const probeResults = {
  succeeds: { status: 'True', reason: 'ProbeSucceeded', message: '' },
  fails: { status: 'False', reason: 'ProbeFailing', message: 'the pod is not ready: kubectl describe pod' },
  'has not started': { status: 'False', reason: startupPending, message: 'the startup probe has not succeeded yet' },
} as const

/** Whether the kubelet's probes succeed. The handler concludes from it whether the VM is ready. */
export function probedStatus(vm: Vm, result: keyof typeof probeResults, now: string): VirtualMachineStatus {
  return next(vm, {}, now, [{ type: probeCondition, ...probeResults[result] }])
}

/** The pod has ended or does not exist, and the guest with it. */
export function endedStatus(vm: Vm, ending: Ending, now: string): VirtualMachineStatus {
  const { isDisrupted = false, ...fields } = ending
  const { reason, message } = fields
  const disruption: Asserted = { type: disruptionTarget, status: 'True', reason, message }
  return next(vm, fields, now, [
    { type: 'Ready', status: 'False', reason, message },
    ...(isDisrupted ? [disruption] : []),
    ...(findCondition(vm.status?.conditions, agentCondition) === undefined ? [] : [agentGone]),
  ])
}

const agentGone: Asserted = {
  type: agentCondition,
  status: 'False',
  reason: 'AgentDisconnected',
  message: 'the guest has ended',
}

/** A finished VM, with the reason why its guest ended in addition to how. */
export function explainedStatus(vm: Vm, disruption: Disruption, now: string): VirtualMachineStatus {
  const { reason, message } = vm.status ?? {}
  const how = [reason, message].filter((part) => part !== undefined && part !== '').join(': ')
  const explained = how === '' ? disruption.message : `${disruption.message}; how the guest ended: ${how}`
  const status = next(vm, {}, now, [{ type: disruptionTarget, status: 'True', ...disruption }])
  return { ...status, reason: disruption.reason, message: statusMessage(explained) }
}

/**
 * The pod exceeds its grace period. Ready stays the handler's, which may still see the guest: both would overwrite it
 * forever.
 */
export function stuckStatus(vm: Vm, message: string, now: string): VirtualMachineStatus {
  return next(vm, {}, now, [{ type: podEndedCondition, status: 'False', reason: podStuck, message }])
}

/**
 * The pod of an attached volume does not end. A condition of its own: PodEnded has the handler's answer about the
 * launcher, without which the controller would ask again.
 */
export function volumesStuckStatus(vm: Vm, message: string, now: string): VirtualMachineStatus {
  return next(vm, {}, now, [{ type: 'VolumePodsEnded', status: 'False', reason: podStuck, message }])
}

/**
 * The pod was removed before its end was observed; the handler of the node can observe whether the launcher still runs.
 */
export function awaitingHandlerStatus(vm: Vm, podName: string, now: string): VirtualMachineStatus {
  const message = `the launcher pod ${podName} no longer exists, but its end was not observed; waiting for the handler of node ${vm.status?.nodeName} to confirm it`
  return next(vm, {}, now, [{ type: podEndedCondition, status: 'Unknown', reason: 'AwaitingHandler', message }])
}

/** The grace period of the pod, which must be known once the pod is gone. */
export function podGraceStatus(vm: Vm, podGracePeriodSeconds: number, now: string): VirtualMachineStatus {
  return next(vm, { podGracePeriodSeconds }, now, [])
}

const completed: Asserted = { type: 'Completed', status: 'True', reason: 'Completed', message: '' }

/** The status with `fields` changed; a phase without reason and message clears those of the last phase. */
function next(vm: Vm, fields: VirtualMachineStatus, now: string, asserted: readonly Asserted[]): VirtualMachineStatus {
  const { reason: _reason, message: _message, ...rest } = vm.status ?? {}
  const base = fields.phase === undefined ? (vm.status ?? {}) : rest
  const observedGeneration = vm.metadata.generation ?? 1
  const conditions = asserted.reduce(
    (all, condition) => setCondition(all, { ...condition, observedGeneration }, now),
    base.conditions ?? [],
  )
  const phase = fields.phase ?? base.phase
  const times = phase === undefined ? {} : { phaseTransitionTimestamps: transitions(vm, phase, now) }
  const { message } = fields
  const shown = message === undefined ? {} : { message: statusMessage(message) }
  return { ...base, ...fields, ...shown, observedGeneration, conditions, ...times }
}

/** A VM is Pending from its creation, without a write of the controller's. */
function transitions({ metadata, status }: Vm, phase: Phase, now: string) {
  const created = { phase: 'Pending' as const, time: metadata.creationTimestamp ?? now }
  return enterPhase(status?.phaseTransitionTimestamps ?? [created], phase, now)
}

/** The columns of `kubectl get vm -o wide`. */
function columnsOf({ spec }: Vm, presets: readonly string[]): VirtualMachineStatus {
  const { memory, os, vcpu } = canonical(pick(spec.domain, 'memory', 'os', 'vcpu'))
  const machine = os?.type?.machine
  const kibibytes = integerOf(memory?.value ?? 0) ?? 0n
  const cpus = Number(integerOf(vcpu?.value ?? 1) ?? 1n)
  return {
    ...(presets.length === 0 ? {} : { presets: presets.join(',') }),
    ...(machine === undefined ? {} : { machine }),
    ...(kibibytes === 0n ? {} : { memory: readable(kibibytes) }),
    cpus,
  }
}

/** In the largest unit without a fraction: 65536 is 64Mi, 62500 stays 62500Ki. */
function readable(kibibytes: bigint): string {
  const units = ['Ki', 'Mi', 'Gi', 'Ti']
  let amount = kibibytes
  let unit = 0
  while (amount % 1024n === 0n && unit < units.length - 1) {
    amount /= 1024n
    unit++
  }
  return `${amount}${units[unit]}`
}

const causesMessage = (causes: readonly Cause[]): string =>
  firstTexts(causes, mostCauses, ({ field, message }) => `${field}: ${message}`)
