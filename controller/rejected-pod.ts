import type { VirtualMachine } from '../api/virtual-machine.ts'
import { findCondition } from '../runtime/condition.ts'
import type { Pod } from './pod.ts'
import type { Elapsed } from './stopwatch.ts'
import type { Mark } from './vm-observed.ts'

/** A device plugin that a rejected pod needed restarts within seconds. */
const firstDelayMs = 5000
const longestDelayMs = 300_000

/**
 * Of the kubelet, for each pod that it does not admit. A pod is bound by what the scheduler knows, while devices, labels,
 * pressure or other pods of the node have changed: a device plugin that restarts has no healthy device for a moment.
 */
const refusal = 'Pod was rejected: '

/**
 * Whether the kubelet rejected the pod, so that no container of it ever ran. A kubelet also rejects pods that have run,
 * after the node was restarted; their VMs have been reported by a handler, or their containers have an end.
 */
export function isRejected({ status: vm = {} }: VirtualMachine, { status: pod = {} }: Pod): boolean {
  const isUnseen = (findCondition(vm.conditions, 'Synchronized')?.reason ?? 'AwaitingHandler') === 'AwaitingHandler'
  const hasNotRun = vm.phase === undefined || ['Pending', 'Scheduling', 'Scheduled'].includes(vm.phase)
  const containers = pod.containerStatuses ?? []
  return (
    pod.phase === 'Failed' &&
    pod.message?.startsWith(refusal) === true &&
    containers.every(({ state }) => state?.terminated === undefined) &&
    hasNotRun &&
    isUnseen
  )
}

/**
 * How long a rejected pod remains before the next one is created: half of the time for which the pods of the VM have
 * been rejected when this one was.
 */
export function rejectedDelayMs(elapsed: Elapsed<Mark>): number {
  const rejectedForMs = (elapsed.get('rejected') ?? 0) - (elapsed.get('podEnded') ?? 0)
  return Math.min(Math.max(firstDelayMs, Math.round(rejectedForMs / 2)), longestDelayMs)
}
