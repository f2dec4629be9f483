import type { RestartWish, VirtualMachineConfig } from '../../api/config.ts'
import { isFinished } from '../../api/machine.ts'
import type { VirtualMachine } from '../../api/machine.ts'
import { gracePeriodAnnotation, isControlledBy, machineOf } from '../../api/template.ts'
import { revisionOf } from '../../presets/compile.ts'
import { isAlreadyExists, isConflict, unlessNotFound } from '../../runtime/api-error.ts'
import { sleep, timestamp } from '../../runtime/clock.ts'
import type { Clock } from '../../runtime/clock.ts'
import type { KubeClient } from '../../runtime/kube.ts'
import { pathOf, virtualMachineConfigs, virtualMachines } from '../../runtime/resource.ts'
import type { Persisted } from '../../runtime/resource.ts'
import type { Status } from '../review.ts'
import type { Wish } from './route.ts'

type Config = Persisted<VirtualMachineConfig>
type Machine = Persisted<VirtualMachine>

export type Answer =
  | { readonly code: 201; readonly object: unknown }
  | { readonly code: 202; readonly uid: string; readonly message: string }
  | { readonly refused: Status }

/** Carries a wish out. What the API server refuses on the way is thrown as it came. */
export type Power = (wish: Wish, signal?: AbortSignal) => Promise<Answer>

/** The next thing to do for a wish, from what there is. */
export type Step =
  | { readonly do: 'create' }
  /** A finished instance, or a stopping one that the user waits for: away with it, if it is there still, then look again. */
  | { readonly do: 'clear'; readonly machine: Machine | undefined }
  | { readonly do: 'delete'; readonly machine: Machine }
  /** A restart is under way: it is called off, and the instance that is there, if any, deleted. */
  | { readonly do: 'call off'; readonly restart: RestartWish }
  /** Write down that another instance is to take the place of this one; the controller does the rest. */
  | { readonly do: 'record'; readonly machine: Machine }
  | { readonly do: 'done'; readonly uid: string; readonly message: string }
  | { readonly do: 'refuse'; readonly message: string }

/** What to do about `wish`. `machine` is the VM by the config's name, whoever's it is. */
export function decide(wish: Wish, config: Config, machine: Machine | undefined): Step {
  if (config.metadata.deletionTimestamp !== undefined) return refuse('it is being deleted')
  if (machine !== undefined && !isControlledBy(machine, config.metadata.uid)) {
    return refuse(`the VM ${machine.metadata.name} is not of this config`)
  }
  if (wish.verb === 'start') return decideStart(wish, config, machine)
  return wish.verb === 'stop' ? decideStop(config, machine) : decideRestart(config, machine)
}

function decideStart(wish: Wish, config: Config, machine: Machine | undefined): Step {
  const { restart } = config.status ?? {}
  if (restart !== undefined && restart.cancelled !== true && !isReplaced(config, machine)) {
    return refuse('it is restarting')
  }
  if (restart?.cancelled === true || machine?.metadata.deletionTimestamp !== undefined) {
    if (wish.isWaiting || (machine !== undefined && isFinished(machine))) return { do: 'clear', machine }
    return refuse('it is stopping; start it when it has stopped, or with wait=true')
  }
  if (machine === undefined) return { do: 'create' }
  return isFinished(machine) ? { do: 'clear', machine } : refuse('it is running already')
}

function decideStop(config: Config, machine: Machine | undefined): Step {
  const { restart } = config.status ?? {}
  if (restart !== undefined && restart.cancelled !== true) return { do: 'call off', restart }
  if (restart !== undefined && (machine === undefined || isFinished(machine))) {
    return { do: 'done', uid: restart.uid, message: 'it is stopping already' }
  }
  return machine === undefined || isFinished(machine) ? refuse('it is not running') : { do: 'delete', machine }
}

function decideRestart(config: Config, machine: Machine | undefined): Step {
  const { restart } = config.status ?? {}
  if (restart?.cancelled === true) return refuse('it is stopping')
  if (restart !== undefined && !isReplaced(config, machine)) {
    return { do: 'done', uid: restart.uid, message: 'it is restarting already' }
  }
  if (machine === undefined || isFinished(machine)) return refuse('it is not running')
  if (machine.metadata.deletionTimestamp !== undefined) return refuse('it is stopping')
  return { do: 'record', machine }
}

/** Whether the wish to restart has come true, and the controller has only not said so yet. */
const isReplaced = ({ status }: Config, machine: Machine | undefined): boolean =>
  machine !== undefined && machine.metadata.uid !== status?.restart?.uid

const refuse = (message: string): Step => ({ do: 'refuse', message })

/** How long a start waits for the instance before; the API server gives a request a minute. */
const longestWaitMs = 45_000
const lookAgainMs = 200
const fieldManager = 'virtset-webhooks'
/** Others wish, too: so often may they be quicker. */
const mostRounds = 20

export function createPower(kube: KubeClient, clock: Clock): Power {
  const find = async (wish: Wish): Promise<{ config: Config; machine: Machine | undefined }> => {
    const { namespace, name } = wish
    const config = await kube.get(virtualMachineConfigs, { namespace, name })
    return { config, machine: await unlessNotFound(kube.get(virtualMachines, { namespace, name })) }
  }

  const create = async ({ isDryRun, namespace, name }: Wish, config: Config, isFree: boolean): Promise<Answer> => {
    const machine = machineOf({ ...config, kind: 'VirtualMachineConfig' }, name, revisionOf(config.spec.template))
    const { name: _taken, ...nameless } = machine.metadata
    // A rehearsal must not fail for what a real start would have cleared away.
    const object = isFree ? machine : { ...machine, metadata: { ...nameless, generateName: `${name.slice(0, 57)}-` } }
    const query = new URLSearchParams({ fieldManager, ...(isDryRun ? { dryRun: 'All' } : {}) })
    // The answer is handed on as it comes: that of a rehearsal has no version, and is no stored object.
    const path = `${pathOf(virtualMachines, { namespace })}?${query.toString()}`
    return { code: 201, object: await kube.request('POST', path, object) }
  }

  const remove = async (machine: Machine, wish: Wish): Promise<void> => {
    const { metadata } = machine
    const { isDryRun: dryRun, gracePeriodSeconds } = wish
    const ref = { namespace: wish.namespace, name: metadata.name }
    if (gracePeriodSeconds !== undefined) {
      const annotations = { [gracePeriodAnnotation]: String(gracePeriodSeconds) }
      const body = { metadata: { uid: metadata.uid, annotations } }
      await kube.patch(virtualMachines, ref, { type: 'merge', body }, { dryRun })
    }
    await unlessNotFound(kube.delete(virtualMachines, ref, { uid: metadata.uid, dryRun }))
  }

  const writeRestart = async (config: Config, restart: RestartWish, dryRun: boolean): Promise<void> => {
    const { namespace, name, resourceVersion, uid } = config.metadata
    const ref = namespace === undefined ? { name } : { namespace, name }
    const body = { metadata: { uid, resourceVersion }, status: { restart } }
    await kube.patch(virtualMachineConfigs, ref, { type: 'merge', body }, { subresource: 'status', dryRun })
  }

  /** Undefined: look again. */
  const perform = async (
    step: Step,
    wish: Wish,
    config: Config,
    isInTime: boolean,
    signal: AbortSignal | undefined,
  ): Promise<Answer | undefined> => {
    switch (step.do) {
      case 'create':
        return create(wish, config, true)
      case 'clear':
        if (wish.isDryRun) return create(wish, config, false)
        if (!isInTime) return conflict(wish, 'the instance before is not gone yet; try again')
        if (step.machine !== undefined && step.machine.metadata.deletionTimestamp === undefined) {
          await remove(step.machine, wish)
        }
        return sleep(clock, lookAgainMs, signal).then(() => undefined)
      case 'delete':
        await remove(step.machine, wish)
        return accepted(step.machine, 'it is asked to power off')
      case 'call off':
        await writeRestart(config, { ...step.restart, ...graceOf(wish), cancelled: true }, wish.isDryRun)
        return stopAfterCallingOff(wish, config)
      case 'record':
        await writeRestart(config, restartOf(step.machine, wish, timestamp(clock)), wish.isDryRun)
        return accepted(step.machine, 'another instance takes its place')
      case 'done':
        return { code: 202, uid: step.uid, message: step.message }
      case 'refuse':
        return conflict(wish, step.message)
    }
  }

  /** The old instance may be gone and the new one not there, or just being made: the controller sees to that one. */
  const stopAfterCallingOff = async (wish: Wish, { metadata }: Config): Promise<Answer> => {
    const { machine } = await find(wish)
    if (machine !== undefined && isControlledBy(machine, metadata.uid) && !isFinished(machine)) {
      await remove(machine, wish)
    }
    return { code: 202, uid: machine?.metadata.uid ?? metadata.uid, message: 'the restart is called off' }
  }

  return async (wish, signal) => {
    const startedMs = clock.monotonic()
    for (let overtaken = 0; ;) {
      const { config, machine } = await find(wish)
      try {
        const isInTime = clock.monotonic() - startedMs < longestWaitMs
        const answer = await perform(decide(wish, config, machine), wish, config, isInTime, signal)
        if (answer !== undefined) return answer
      } catch (error) {
        // Somebody was quicker: what there is now says what to answer.
        if ((!isAlreadyExists(error) && !isConflict(error)) || ++overtaken >= mostRounds) throw error
      }
    }
  }
}

const restartOf = ({ metadata }: Machine, wish: Wish, requestedAt: string): RestartWish => ({
  uid: metadata.uid,
  requestedAt,
  ...graceOf(wish),
})

const graceOf = ({ gracePeriodSeconds }: Wish): Pick<RestartWish, 'gracePeriodSeconds'> =>
  gracePeriodSeconds === undefined ? {} : { gracePeriodSeconds }

const accepted = ({ metadata }: Machine, message: string): Answer => ({ code: 202, uid: metadata.uid, message })

const conflict = ({ verb, name }: Wish, message: string): Answer => ({
  refused: {
    code: 409,
    reason: 'Conflict',
    message: `Operation cannot be fulfilled on virtualmachineconfigs/${verb} "${name}": ${message}`,
  },
})
