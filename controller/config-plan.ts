import { isDeepStrictEqual } from 'node:util'
import type { ConfigPhase, ConfigStatus, RestartWish, VirtualMachineConfig } from '../api/config.ts'
import { isFinished } from '../api/machine.ts'
import type { VirtualMachine } from '../api/machine.ts'
import { isControlledBy, templateRevisionAnnotation } from '../api/template.ts'
import { findCondition, setCondition } from '../runtime/condition.ts'
import type { NewCondition } from '../runtime/condition.ts'
import type { Persisted } from '../runtime/resource.ts'

type Config = Persisted<VirtualMachineConfig>
type Machine = Persisted<VirtualMachine>

export interface ObservedConfig {
  readonly config: Config
  /** The VM by the config's name, whoever's it is. While a restart is wished for, both are as the API server has them, not a cache. */
  readonly machine: Machine | undefined
  /** The hash of the template as it is now. */
  readonly revision: string
  /** RFC 3339. */
  readonly now: string
}

export type ConfigAction =
  /** Make the VM of the template as it is now. */
  | { readonly do: 'create' }
  | { readonly do: 'delete'; readonly machine: Machine; readonly gracePeriodSeconds?: number }
  | { readonly do: 'write'; readonly status: ConfigStatus }
  | { readonly do: 'tell'; readonly type: 'Normal' | 'Warning'; readonly reason: string; readonly message: string }

/**
 * What to do for a config, in this order. It starts and stops nothing by itself: `start` and `stop` have done that before anybody comes here. What it finishes is a
 * restart, from whatever point it was left at:
 *
 *     wish, old instance there   → delete it
 *     wish, it is ending         → wait
 *     wish, nothing there        → create
 *     wish, another one is there → the wish has come true
 *     wish, called off           → delete whichever is there, and forget the wish
 *
 * One config is worked on once at a time, so that whatever was being made when the wish was called off is there to be seen in the next round.
 */
export function planConfig(observed: ObservedConfig): ConfigAction[] {
  const { config, machine } = observed
  if (config.metadata.deletionTimestamp !== undefined) return []
  const { restart } = config.status ?? {}
  if (restart === undefined) return follow(observed)
  if (restart.cancelled === true) {
    const isAlive = machine !== undefined && !isFinished(machine)
    return [...(isAlive ? remove(observed, restart) : []), ...follow(observed, 'forget the wish')]
  }
  if (machine === undefined) return [{ do: 'create' }]
  if (!isControlledBy(machine, config.metadata.uid)) {
    const message = `the VM ${machine.metadata.name} is not of this config; it is not restarted`
    return [...follow(observed, 'forget the wish'), { do: 'tell', type: 'Warning', reason: 'NameTaken', message }]
  }
  if (machine.metadata.uid !== restart.uid) {
    const message = `The VM ${restart.uid} was replaced by ${machine.metadata.uid}`
    return [...follow(observed, 'forget the wish'), { do: 'tell', type: 'Normal', reason: 'Restarted', message }]
  }
  return [...remove(observed, restart), ...follow(observed)]
}

/** Deletes the config's own VM, unless somebody has. */
function remove({ config, machine }: ObservedConfig, { gracePeriodSeconds }: RestartWish): ConfigAction[] {
  if (machine === undefined || !isControlledBy(machine, config.metadata.uid)) return []
  if (machine.metadata.deletionTimestamp !== undefined) return []
  return [{ do: 'delete', machine, ...(gracePeriodSeconds === undefined ? {} : { gracePeriodSeconds }) }]
}

/** What to do when the API server refused the VM of a restart. The wish stays: `stop` takes it back. */
export function refusedToRestart({ config, now }: ObservedConfig, message: string): ConfigAction[] {
  const { instance: _gone, outdated: _unknown, ...rest } = config.status ?? {}
  const condition = { type: 'Ready', status: 'False', reason: 'FailedCreate', message } as const
  const status = { ...rest, phase: 'Failed' as const, ...told(config, condition, now) }
  if (isDeepStrictEqual(status, config.status)) return []
  return [
    { do: 'write', status },
    { do: 'tell', type: 'Warning', reason: 'FailedCreate', message },
  ]
}

/** The status as it should be, told where it changes. */
function follow(
  { config, machine, revision, now }: ObservedConfig,
  wish: 'keep the wish' | 'forget the wish' = 'keep the wish',
): ConfigAction[] {
  const own = machine !== undefined && isControlledBy(machine, config.metadata.uid) ? machine : undefined
  const { instance: _before, outdated: _then, restart, ...rest } = config.status ?? {}
  const phase = phaseOf(own)
  const status: ConfigStatus = {
    ...rest,
    phase,
    ...(restart === undefined || wish === 'forget the wish' ? {} : { restart }),
    ...(own === undefined ? {} : instanceOf(own, revision)),
    ...told(config, readyOf(own), now),
  }
  const write: ConfigAction[] = isDeepStrictEqual(status, config.status) ? [] : [{ do: 'write', status }]
  if (phase === config.status?.phase) return write
  const message = messageOf(phase, own)
  return [...write, { do: 'tell', type: phase === 'Failed' ? 'Warning' : 'Normal', reason: phase, message }]
}

function phaseOf(machine: Machine | undefined): ConfigPhase {
  if (machine === undefined) return 'Stopped'
  const { phase } = machine.status ?? {}
  if (phase === 'Succeeded') return 'Stopped'
  if (phase === 'Failed') return 'Failed'
  if (machine.metadata.deletionTimestamp !== undefined) return 'Stopping'
  // Of a node that is silent nobody knows; it ran when it was last heard of.
  return phase === 'Running' || phase === 'Unknown' ? 'Running' : 'Starting'
}

function instanceOf(machine: Machine, revision: string): Pick<ConfigStatus, 'instance' | 'outdated'> {
  const { name, uid, annotations = {} } = machine.metadata
  const { nodeName } = machine.status ?? {}
  return {
    instance: { name, uid, ...(nodeName === undefined ? {} : { nodeName }) },
    outdated: annotations[templateRevisionAnnotation] !== revision,
  }
}

function readyOf(machine: Machine | undefined): Omit<NewCondition, 'observedGeneration'> {
  const type = 'Ready'
  if (machine === undefined) return { type, status: 'False', reason: 'Stopped', message: 'there is no VM' }
  const ready = findCondition(machine.status?.conditions, type)
  if (ready === undefined) return { type, status: 'False', reason: 'Starting', message: 'the VM has said nothing yet' }
  const { status, reason, message } = ready
  return { type, status, reason, message }
}

function told(
  { metadata, status }: Config,
  condition: Omit<NewCondition, 'observedGeneration'>,
  now: string,
): Pick<ConfigStatus, 'observedGeneration' | 'conditions'> {
  const observedGeneration = metadata.generation ?? 1
  return { observedGeneration, conditions: setCondition(status?.conditions, { ...condition, observedGeneration }, now) }
}

function messageOf(phase: ConfigPhase, machine: Machine | undefined): string {
  const { reason, message, nodeName } = machine?.status ?? {}
  switch (phase) {
    case 'Running':
      return `The VM runs on node ${nodeName ?? ''}`
    case 'Starting':
      return `The VM ${machine?.metadata.uid ?? ''} is starting`
    case 'Stopping':
      return 'The VM is asked to power off'
    case 'Stopped':
      return machine === undefined ? 'There is no VM' : (message ?? 'The guest has powered off')
    case 'Failed':
      return `The VM failed: ${[reason, message].filter((part) => part !== undefined).join(': ')}`
  }
}
