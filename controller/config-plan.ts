import { isDeepStrictEqual } from 'node:util'
import type { ConfigPhase, ConfigStatus, RestartRequest } from '../api/config.ts'
import { firstTexts } from '../api/shorten.ts'
import { isControlledBy, templateRevisionAnnotation } from '../api/template.ts'
import { isFinished, launcherPodFinalizer } from '../api/virtual-machine.ts'
import type { VirtualMachine } from '../api/virtual-machine.ts'
import { findCondition, setCondition } from '../runtime/condition.ts'
import type { NewCondition } from '../runtime/condition.ts'
import { agentCondition } from '../runtime/guest-info.ts'
import type { Persisted } from '../runtime/resource.ts'
import type { CommonAction } from './action.ts'
import type { CachedConfig } from './slim-owner.ts'

type Config = Persisted<CachedConfig>
type Vm = Persisted<VirtualMachine>

export interface ObservedConfig {
  readonly config: Config
  /**
   * The VM of the config's name, whatever its owner. During a restart, both come whole from the API server, not from a
   * cache.
   */
  readonly vm: Vm | undefined
  /** The hash of the current template. */
  readonly revision: string
  /** RFC 3339. */
  readonly now: string
}

export type ConfigAction =
  | CommonAction<ConfigStatus>
  /** Create the VM from the current template. */
  | { readonly do: 'createVm' }
  | { readonly do: 'deleteVm'; readonly vm: Vm; readonly gracePeriodSeconds?: number }

/**
 * What to do for a config, in this order. The controller starts and stops nothing on its own: `start` and `stop` do
 * that directly. It finishes restarts, from whatever point they were left at:
 *
 *     requested, the old VM exists      → delete it
 *     requested, the old VM terminates  → wait
 *     requested, no VM exists           → create one
 *     requested, another VM exists      → the restart is done
 *     cancelled                         → delete any VM of the config, and drop the request
 *
 * One worker handles a config at a time, so a VM that was being created when the restart was cancelled is visible in
 * the next pass.
 */
export function planConfig(observed: ObservedConfig): ConfigAction[] {
  const { config, vm } = observed
  if (config.metadata.deletionTimestamp !== undefined) return []
  const { restart } = config.status ?? {}
  if (restart === undefined) return follow(observed)
  if (restart.cancelled === true) {
    const isAlive = vm !== undefined && !isFinished(vm)
    return [...(isAlive ? deleteVm(observed, restart) : []), ...follow(observed, 'drop the request')]
  }
  if (vm === undefined) return [{ do: 'createVm' }]
  if (!isControlledBy(vm, { kind: 'VirtualMachineConfig', metadata: config.metadata })) {
    const message = `the VM ${vm.metadata.name} does not belong to this config; it is not restarted`
    return [...follow(observed, 'drop the request'), event('Warning', 'NameTaken', message)]
  }
  if (vm.metadata.uid !== restart.uid) {
    const message = `The VM ${restart.uid} was replaced by ${vm.metadata.uid}`
    return [...follow(observed, 'drop the request'), event('Normal', 'Restarted', message)]
  }
  return [...deleteVm(observed, restart), ...follow(observed)]
}

const event = (type: 'Normal' | 'Warning', reason: string, message: string): ConfigAction => ({
  do: 'recordEvent',
  type,
  reason,
  message,
})

/** Deletes the config's own VM, unless it is being deleted. */
function deleteVm({ config, vm }: ObservedConfig, { gracePeriodSeconds }: RestartRequest): ConfigAction[] {
  if (vm === undefined || !isControlledBy(vm, { kind: 'VirtualMachineConfig', metadata: config.metadata })) return []
  if (vm.metadata.deletionTimestamp !== undefined) return []
  return [{ do: 'deleteVm', vm, ...(gracePeriodSeconds === undefined ? {} : { gracePeriodSeconds }) }]
}

/** What to do when the API server refused the VM of a restart. The request stays until `stop` cancels it. */
export function refusedToRestart({ config, now }: ObservedConfig, message: string): ConfigAction[] {
  const { instance: _instance, outdated: _outdated, ...rest } = config.status ?? {}
  const condition = { type: 'Ready', status: 'False', reason: 'FailedCreate', message } as const
  const status = { ...rest, phase: 'Failed' as const, ...conditionsOf(config, condition, now) }
  if (isDeepStrictEqual(status, config.status)) return []
  return [{ do: 'updateStatus', status }, event('Warning', 'FailedCreate', message)]
}

/** Updates the status, and records an event where the phase changes. */
function follow(
  { config, vm, revision, now }: ObservedConfig,
  request: 'keep the request' | 'drop the request' = 'keep the request',
): ConfigAction[] {
  const own =
    vm !== undefined && isControlledBy(vm, { kind: 'VirtualMachineConfig', metadata: config.metadata }) ? vm : undefined
  const { instance: _instance, outdated: _outdated, restart, ...rest } = config.status ?? {}
  const isRestarting = restart !== undefined && request === 'keep the request'
  const removed = isRestarting && own !== undefined && isBeingRemoved(own) ? own : undefined
  const phase = removed === undefined ? phaseOf(own) : 'Stopping'
  const ready = removed === undefined ? readyOf(own) : removalOf(removed)
  const status: ConfigStatus = {
    ...rest,
    phase,
    ...(isRestarting ? { restart } : {}),
    ...(own === undefined ? {} : instanceOf(own, revision)),
    ...conditionsOf(config, ready, now, agentOf(own)),
  }
  const update: ConfigAction[] = isDeepStrictEqual(status, config.status) ? [] : [{ do: 'updateStatus', status }]
  if (phase === config.status?.phase) return update
  const type = phase === 'Failed' || phase === 'Unknown' ? 'Warning' : 'Normal'
  return [...update, event(type, phase, messageOf(phase, own))]
}

function phaseOf(vm: Vm | undefined): ConfigPhase {
  if (vm === undefined) return 'Stopped'
  const { phase } = vm.status ?? {}
  if (phase === 'Succeeded') return 'Stopped'
  if (phase === 'Failed') return 'Failed'
  if (vm.metadata.deletionTimestamp !== undefined) return 'Stopping'
  return phase === 'Running' || phase === 'Unknown' ? phase : 'Starting'
}

function instanceOf(vm: Vm, revision: string): Pick<ConfigStatus, 'instance' | 'outdated'> {
  const { name, uid, annotations = {} } = vm.metadata
  const { nodeName } = vm.status ?? {}
  return {
    instance: { name, uid, ...(nodeName === undefined ? {} : { nodeName }) },
    outdated: annotations[templateRevisionAnnotation] !== revision,
  }
}

type Asserted = Omit<NewCondition, 'observedGeneration'>

/** Its guest has ended, and finalizers keep it: a restart waits for them. */
const isBeingRemoved = (vm: Vm): boolean => vm.metadata.deletionTimestamp !== undefined && isFinished(vm)

/** Other clients can add any number. */
const mostFinalizers = 3

function removalOf({ metadata: { finalizers = [] } }: Vm): Asserted {
  const names = firstTexts(finalizers, mostFinalizers, (name) => name)
  const pod = finalizers.includes(launcherPodFinalizer)
    ? `; ${launcherPodFinalizer} is removed when its launcher pod is gone`
    : ''
  const message = `the guest has ended; the restart waits until the VM is removed, whose finalizers are: ${names}${pod}`
  return { type: 'Ready', status: 'False', reason: 'Terminating', message }
}

function readyOf(vm: Vm | undefined): Asserted {
  const type = 'Ready'
  if (vm === undefined) return { type, status: 'False', reason: 'Stopped', message: 'the VM does not exist' }
  const ready = findCondition(vm.status?.conditions, type)
  if (ready === undefined) {
    return { type, status: 'False', reason: 'Starting', message: 'the VM has not reported anything yet' }
  }
  const { status, reason, message } = ready
  return { type, status, reason, message }
}

/** As the VM has it; a config without a VM, or whose VM has no channel for an agent, has no such condition. */
function agentOf(vm: Vm | undefined): Asserted | undefined {
  const found = findCondition(vm?.status?.conditions, agentCondition)
  if (found === undefined) return undefined
  const { type, status, reason, message } = found
  return { type, status, reason, message }
}

function conditionsOf(
  { metadata, status }: Config,
  condition: Asserted,
  now: string,
  agent?: Asserted,
): Pick<ConfigStatus, 'observedGeneration' | 'conditions'> {
  const observedGeneration = metadata.generation ?? 1
  const before =
    agent === undefined ? status?.conditions?.filter(({ type }) => type !== agentCondition) : status?.conditions
  const conditions = setCondition(before, { ...condition, observedGeneration }, now)
  if (agent === undefined) return { observedGeneration, conditions }
  return { observedGeneration, conditions: setCondition(conditions, { ...agent, observedGeneration }, now) }
}

function messageOf(phase: ConfigPhase, vm: Vm | undefined): string {
  const { reason, message, nodeName } = vm?.status ?? {}
  switch (phase) {
    case 'Running':
      return `The VM runs on node ${nodeName ?? ''}`
    case 'Unknown':
      return message ?? `The state of the VM on node ${nodeName ?? ''} is unknown`
    case 'Starting':
      return `The VM ${vm?.metadata.uid ?? ''} is starting`
    case 'Stopping':
      return vm !== undefined && isFinished(vm) ? 'The VM is being removed' : 'The VM is shutting down'
    case 'Stopped':
      return vm === undefined ? 'The VM does not exist' : (message ?? 'The guest powered off')
    case 'Failed':
      return `The VM failed: ${[reason, message].filter((part) => part !== undefined).join(': ')}`
  }
}
