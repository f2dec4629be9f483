import { isDeepStrictEqual } from 'node:util'
import { canonical } from '../api/domain/canonical.ts'
import { integerOf } from '../api/domain/scalar-value.ts'
import type { Cause } from '../api/cause.ts'
import type { MachineStatus, Phase, VirtualMachine } from '../api/machine.ts'
import { setCondition } from '../runtime/condition.ts'
import type { NewCondition } from '../runtime/condition.ts'
import { enterPhase } from '../runtime/phase-times.ts'
import type { Persisted } from '../runtime/resource.ts'
import type { Pod } from './pod.ts'

type Machine = Persisted<VirtualMachine>
type Asserted = Omit<NewCondition, 'observedGeneration'>

/** The reason of a VM that waits for presets, or for its user, to change. */
export const completionRefused = 'CompletionRefused'

/** Causes told in a condition; kubectl shows a message in one line. */
const mostCauses = 5

export function isChanged(machine: Machine, status: MachineStatus): boolean {
  return !isDeepStrictEqual(machine.status ?? {}, status)
}

/** Completion refused it: nothing starts. */
export function refusedStatus(machine: Machine, causes: readonly Cause[], now: string): MachineStatus {
  const message = causesMessage(causes)
  return next(machine, { phase: 'Pending', reason: completionRefused, message }, now, [
    { type: 'Completed', status: 'False', reason: completionRefused, message },
    {
      type: 'Ready',
      status: 'False',
      reason: 'NotCompleted',
      message: 'it is not started before its spec is complete',
    },
  ])
}

/** There is no pod yet, and cannot be: `reason` and `message` say why. */
export function pendingStatus(machine: Machine, reason: string, message: string, now: string): MachineStatus {
  return next(machine, { phase: 'Pending', reason, message }, now, [
    completed,
    { type: 'PodScheduled', status: 'False', reason, message },
    { type: 'Ready', status: 'False', reason: 'PodNotScheduled', message: 'the launcher pod cannot be made yet' },
  ])
}

/** The pod is there, but no node took it. */
export function schedulingStatus(
  machine: Machine,
  pod: Persisted<Pod>,
  waits: { reason: string; message: string },
  now: string,
): MachineStatus {
  return next(machine, { phase: 'Scheduling', podUID: pod.metadata.uid, ...waits }, now, [
    completed,
    { type: 'PodScheduled', status: 'False', ...waits },
    { type: 'Ready', status: 'False', reason: 'PodNotScheduled', message: 'no node has taken the launcher pod yet' },
  ])
}

/** A node took the pod. Names the pod for good, and is what makes the handler of that node act. */
export function scheduledStatus(
  machine: Machine,
  pod: Persisted<Pod>,
  nodeName: string,
  presets: readonly string[],
  now: string,
): MachineStatus {
  const podUID = pod.metadata.uid
  const fields = { phase: 'Scheduled' as const, podUID, nodeName, ...columnsOf(machine, presets) }
  return next(machine, fields, now, [
    completed,
    { type: 'PodScheduled', status: 'True', reason: 'Scheduled', message: `on node ${nodeName}` },
    { type: 'Ready', status: 'False', reason: 'GuestNotRunning', message: 'the launcher is starting' },
    { type: 'Synchronized', status: 'False', reason: 'AwaitingHandler', message: 'the handler has not seen it yet' },
  ])
}

/** The launcher's container cannot start. */
export function troubledStatus(machine: Machine, reason: string, message: string, now: string): MachineStatus {
  return next(machine, {}, now, [{ type: 'Ready', status: 'False', reason, message }])
}

/** Nobody can see what the guest does. */
export function unknownStatus(machine: Machine, reason: string, message: string, now: string): MachineStatus {
  return next(machine, { phase: 'Unknown', reason, message }, now, [
    { type: 'Ready', status: 'Unknown', reason, message },
  ])
}

/** The pod ended, or is gone, and with it the guest. */
export function endedStatus(
  machine: Machine,
  end: { phase: 'Succeeded' | 'Failed'; reason: string; message: string; podUID?: string },
  now: string,
): MachineStatus {
  const { reason, message } = end
  return next(machine, end, now, [{ type: 'Ready', status: 'False', reason, message }])
}

/** The pod should have ended long ago. Ready is the handler's, which may still see the guest: each would undo the other's word without end. */
export function stuckStatus(machine: Machine, message: string, now: string): MachineStatus {
  return next(machine, {}, now, [{ type: 'PodEnded', status: 'False', reason: 'PodStuckTerminating', message }])
}

const completed: Asserted = { type: 'Completed', status: 'True', reason: 'Completed', message: '' }

/** `fields` over what there was; a phase without reason and message clears those of the last one. */
function next(machine: Machine, fields: MachineStatus, now: string, asserted: readonly Asserted[]): MachineStatus {
  const { reason: _reason, message: _message, ...rest } = machine.status ?? {}
  const base = fields.phase === undefined ? (machine.status ?? {}) : rest
  const observedGeneration = machine.metadata.generation ?? 1
  const conditions = asserted.reduce(
    (all, condition) => setCondition(all, { ...condition, observedGeneration }, now),
    base.conditions ?? [],
  )
  const phase = fields.phase ?? base.phase
  const times = phase === undefined ? {} : { phaseTransitionTimestamps: transitions(machine, phase, now) }
  return { ...base, ...fields, observedGeneration, conditions, ...times }
}

/** A VM is Pending from its creation on, without a write of ours that says so. */
function transitions({ metadata, status }: Machine, phase: Phase, now: string) {
  const created = { phase: 'Pending' as const, time: metadata.creationTimestamp ?? now }
  return enterPhase(status?.phaseTransitionTimestamps ?? [created], phase, now)
}

/** What `kubectl get vm -o wide` shows. */
function columnsOf({ spec }: Machine, presets: readonly string[]): MachineStatus {
  const { memory, os, vcpu } = canonical(spec.domain)
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

/** In the largest unit that leaves no fraction: 65536 is 64Mi, 62500 stays 62500Ki. */
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

function causesMessage(causes: readonly Cause[]): string {
  const shown = causes.slice(0, mostCauses).map(({ field, message }) => `${field}: ${message}`)
  const rest = causes.length - shown.length
  return [...shown, ...(rest > 0 ? [`and ${rest} more`] : [])].join('; ')
}
