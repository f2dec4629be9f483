import type { MachineStatus, VirtualMachine } from '../api/machine.ts'
import { isConflict, isNotFound } from '../runtime/api-error.ts'
import { createBackOff, type BackOff } from '../runtime/back-off.ts'
import { createBucket, type Bucket } from '../runtime/bucket.ts'
import { sleep, type Clock } from '../runtime/clock.ts'
import type { KubeClient } from '../runtime/kube.ts'
import { InvalidLauncherAnswer, type DomainReport } from '../runtime/launcher-api.ts'
import type { Logger } from '../runtime/log.ts'
import { createOwnWrites } from '../runtime/own-writes.ts'
import { startReflector, type Reflector } from '../runtime/reflector.ts'
import { keyOf, unchanged, virtualMachines, type Persisted } from '../runtime/resource.ts'
import { startWorkQueue } from '../runtime/work-queue.ts'
import {
  LauncherAbsent,
  LauncherRefusal,
  LauncherUnreachable,
  type Launcher,
  type LauncherEvent,
  type LauncherLimits,
} from './launcher.ts'
import { createPendingBytes } from './pending-bytes.ts'
import { plan, type Action, type Observation } from './plan.ts'
import { slimMachine, statusPatch } from './slim-machine.ts'
import { countValues } from './status.ts'

type Machine = Persisted<VirtualMachine>

export interface HandlerOptions {
  readonly kube: KubeClient
  readonly nodeName: string
  /** The launcher in the pod with this uid, and the pod's address once it has one. */
  readonly launcherOf: (podUID: string, limits: LauncherLimits) => Launcher
  readonly addressOf: (podUID: string) => Promise<string | undefined>
  readonly tell: (machine: Machine, type: 'Normal' | 'Warning', reason: string, message: string) => void
  readonly log: Logger
  readonly clock: Clock
}

export interface Handler {
  readonly machines: Reflector<VirtualMachine>
  stop(): Promise<void>
}

/**
 * A round waits for its launcher and for the API server, and costs a socket meanwhile. So there are enough for each VM of a full node; a
 * namespace gets few, since what they hold and write together is bounded.
 */
const concurrency = 256
const namespaceConcurrency = 8

/** A launcher answers at once. One that did not is waited for longer the next times: it may be short of CPU. */
const shortestDeadlineMs = 1000
const longestDeadlineMs = 5000

/** A life has a dozen events and writes. After this many a launcher causes one round, and its VM one write, a second. */
const mostAtOnce = 20
const perSecond = 1
const lookAgainMs = 1000

/**
 * A life costs a dozen answers, of 60 KiB and 4,000 values for a domain of 100 devices; an event is 200 bytes, and 60 KiB from an older
 * launcher. To parse, compare and store a value takes as long as to read so many bytes.
 */
const answerBytes = { perSecond: 64 * 1024, burst: 4 * 1024 * 1024 }
const bytesPerValue = 32
/** A write of so many values counts as one more. */
const valuesPerWrite = 500
const eventBytes = { perSecond: 64 * 1024, burst: 1024 * 1024 }
/** Of the 256 MiB of the manifest. */
const mostPendingBytes = 16 * 1024 * 1024

/** Status writes of the whole node: a full node that starts at once has one for each VM. */
const writesPerSecond = 50
const writeBurst = 200

/** How soon a stream of events that ended is opened again. */
const reopening = { firstMs: 1000, longestMs: 30_000, healthyMs: 60_000 }

/** What is known of a VM beside its object. All of it can be lost. */
interface Tracked {
  readonly limits: Omit<LauncherLimits, 'deadlineMs'>
  /** Rounds that its launcher's events may still cause. */
  readonly hints: Bucket
  /** Status writes that its launcher may still cause. Each brings another round, in which it may answer something else again. */
  readonly writes: Bucket
  readonly reopening: BackOff
  /** An event has caused a round that has not begun. */
  isHinted: boolean
  /** Since when its launcher has not said how it is. */
  silentSince: number | undefined
  /** Since when its launcher has been starting the guest. */
  startingSince: number | undefined
  /** What was wrong with its launcher's events. */
  misbehaviour: string | undefined
  /** Its launcher's events are followed; aborted to stop that. */
  following: AbortController | undefined
  /** Not before this are they followed again. */
  followAtMs: number
}

/** One VM and its launcher, for as long as a round lasts. */
interface Round {
  readonly key: string
  readonly podUID: string
  readonly vm: Tracked
  readonly launcher: Launcher
}

/**
 * Brings the VMs of one node to what their specs say: hands each to its launcher, and writes what the launcher reports.
 *
 * Nothing depends on its memory: a round starts from the VM as stored and the launcher's answer. An event of the launcher only causes another
 * round. While a launcher does not answer nothing is concluded from that; what becomes of its pod is the controller's matter.
 *
 * A launcher may be hostile, so a VM can use up only what is its own: one request at a time, answers and events by the byte, rounds and writes
 * per second. VMs of one namespace share what bounds the node as a whole; namespaces take turns.
 */
export function startHandler(options: HandlerOptions): Handler {
  const { kube, nodeName, tell, log, clock } = options
  const machines = startReflector({
    kube,
    resource: virtualMachines,
    log,
    fieldSelector: `status.nodeName=${nodeName}`,
    transform: slimMachine,
    isLarge: true,
  })
  const groups = { of: (key: string) => key.slice(0, key.indexOf('/')), concurrency: namespaceConcurrency }
  const queue = startWorkQueue({ reconcile, concurrency, groups, log, clock })
  const pending = createPendingBytes(mostPendingBytes)
  const writes = createBucket(writesPerSecond, writeBurst, clock)
  const written = createOwnWrites<VirtualMachine>()
  /** By the VM's uid. */
  const tracked = new Map<string, Tracked>()
  const stopping = new AbortController()

  machines.onChange((change) => {
    if (change.kind === 'deleted') forget(change.object)
    queue.add(keyOf(change.object.metadata))
  })

  async function reconcile(key: string): Promise<void> {
    const stored = machines.store.get(key)
    const podUID = stored?.status?.podUID
    if (stored === undefined || podUID === undefined) return
    const machine = written.newest(stored)
    const vm = track(machine)
    vm.isHinted = false
    const debtMs = vm.limits.answers.take(0)
    if (debtMs > 0) return queue.addAfter(key, debtMs)
    const deadlineMs = Math.min(Math.max(since(vm.silentSince), shortestDeadlineMs), longestDeadlineMs)
    const round = { key, podUID, vm, launcher: options.launcherOf(podUID, { ...vm.limits, deadlineMs }) }
    try {
      const observation = await observe(round, machine, () => round.launcher.report())
      if (observation.kind === 'report') follow(round)
      await perform(round, machine, observation)
    } finally {
      // It may have gone in the meantime, and no other event would come for it.
      if (machines.store.get(key)?.metadata.uid !== machine.metadata.uid) forget(machine)
    }
  }

  async function perform(round: Round, before: Machine, observation: Observation): Promise<void> {
    let machine = before
    for (const action of plan(machine, observation, new Date(clock.now()))) {
      log.debug({ machine: round.key, uid: machine.metadata.uid, action: action.do }, 'handling')
      switch (action.do) {
        case 'put':
          return perform(round, machine, await observe(round, machine, () => accepted(round.launcher, machine)))
        case 'shutdown':
        case 'destroy': {
          const failure = await order(round, action)
          if (failure !== undefined) return perform(round, machine, failure)
          break
        }
        case 'final':
          stopFollowing(round.vm)
          // The launcher exits by itself after some seconds, so an error changes nothing.
          await round.launcher
            .final()
            .catch((error: unknown) => log.info({ machine: round.key, err: error }, 'not final'))
          break
        case 'write':
          if (!round.vm.writes.takeIfAny()) return queue.addAfter(round.key, lookAgainMs)
          if (action.status.domain !== machine.status?.domain) {
            round.vm.writes.take(countValues(action.status.domain) / valuesPerWrite)
          }
          machine = await write(machine, action.status)
          break
        case 'tell':
          tell(machine, action.type, action.reason, action.message)
          break
        case 'again':
          queue.addAfter(round.key, action.afterMs)
      }
    }
  }

  async function observe(
    { vm, podUID }: Round,
    machine: Machine,
    ask: () => Promise<DomainReport>,
  ): Promise<Observation> {
    try {
      const report = await ask()
      vm.limits.answers.take(countValues(report.domain) * bytesPerValue)
      mustBeAbout(machine, report)
      // One that waits has said nothing yet; it may go on to refuse what it waits for.
      if (report.phase !== 'Waiting') vm.silentSince = undefined
      vm.startingSince = report.phase === 'Defined' ? (vm.startingSince ?? clock.monotonic()) : undefined
      const podIP = await options.addressOf(podUID)
      return {
        kind: 'report',
        report,
        startingForMs: since(vm.startingSince),
        ...(podIP === undefined ? {} : { podIP }),
        ...(vm.misbehaviour === undefined ? {} : { misbehaviour: vm.misbehaviour }),
      }
    } catch (error) {
      return failureOf(vm, error)
    }
  }

  /** What came instead of its being accepted, if anything. */
  async function order(
    { launcher, vm }: Round,
    action: Action & { do: 'shutdown' | 'destroy' },
  ): Promise<Observation | undefined> {
    try {
      await (action.do === 'shutdown' ? launcher.shutdown(action.gracePeriodSeconds) : launcher.destroy())
      return undefined
    } catch (error) {
      return failureOf(vm, error)
    }
  }

  /** @throws the error, if it is not the launcher's */
  function failureOf(vm: Tracked, error: unknown): Observation {
    if (error instanceof LauncherAbsent) return { kind: 'absent' }
    vm.silentSince ??= clock.monotonic()
    const silentForMs = since(vm.silentSince)
    if (error instanceof LauncherRefusal) {
      return { kind: 'refused', reason: error.reason, message: error.message, silentForMs }
    }
    if (error instanceof InvalidLauncherAnswer) return { kind: 'misbehaving', message: error.message, silentForMs }
    if (error instanceof LauncherUnreachable) return { kind: 'unreachable', message: error.message, silentForMs }
    throw error
  }

  /** Each event of the launcher, and the end of its events, is another round. */
  function follow({ key, vm, launcher }: Round): void {
    if (vm.following !== undefined || clock.monotonic() < vm.followAtMs) return
    const stop = new AbortController()
    vm.following = stop
    launcher
      .watch(stop.signal, (event) => onEvent(key, vm, event))
      .catch((error: unknown) => {
        if (stop.signal.aborted) return
        vm.following = undefined
        if (error instanceof InvalidLauncherAnswer) vm.misbehaviour = error.message
        const waitMs = vm.reopening.next()
        vm.followAtMs = clock.monotonic() + waitMs
        log.info({ machine: key, err: error, waitMs }, 'the launcher’s events ended')
        queue.addAfter(key, waitMs)
      })
  }

  function onEvent(key: string, vm: Tracked, event: LauncherEvent): void {
    // A heartbeat comes 10 s after the stream began, if it lasts so long.
    if (event === 'heartbeat' && vm.misbehaviour === undefined) return
    if (event === 'heartbeat') vm.misbehaviour = undefined
    if (vm.isHinted) return
    vm.isHinted = true
    const waitMs = vm.hints.take()
    if (waitMs > 0) queue.addAfter(key, waitMs)
    else queue.add(key)
  }

  /** Waits for the write budget of the node: no longer than for the few writes of each other namespace that are under way. */
  async function write(machine: Machine, status: MachineStatus): Promise<Machine> {
    const { name, namespace } = machine.metadata
    const body = [...unchanged(machine), ...statusPatch(machine, status)]
    const waitMs = writes.take()
    if (waitMs > 0) await sleep(clock, waitMs, stopping.signal)
    try {
      const ref = { name, ...(namespace === undefined ? {} : { namespace }) }
      const patched = await kube.patch(virtualMachines, ref, { type: 'json', body }, { subresource: 'status' })
      const after = slimMachine(patched)
      written.note(after)
      return after
    } catch (error) {
      // Somebody wrote in between; the next round, which the watch brings, starts from what they wrote.
      if (isConflict(error) || isNotFound(error)) written.forget(machine.metadata)
      throw error
    }
  }

  const since = (startMs: number | undefined): number => (startMs === undefined ? 0 : clock.monotonic() - startMs)

  function track({ metadata: { uid, namespace = '' } }: Machine): Tracked {
    const known = tracked.get(uid)
    if (known) return known
    const bytes = (of: { perSecond: number; burst: number }) => createBucket(of.perSecond, of.burst, clock)
    const vm: Tracked = {
      limits: {
        answers: bytes(answerBytes),
        events: bytes(eventBytes),
        hold: (end) => pending.hold(namespace, end),
      },
      hints: createBucket(perSecond, mostAtOnce, clock),
      writes: createBucket(perSecond, mostAtOnce, clock),
      reopening: createBackOff({ ...reopening, clock, random: () => 0 }),
      isHinted: false,
      silentSince: undefined,
      startingSince: undefined,
      misbehaviour: undefined,
      following: undefined,
      followAtMs: 0,
    }
    tracked.set(uid, vm)
    return vm
  }

  function stopFollowing(vm: Tracked): void {
    vm.following?.abort()
    vm.following = undefined
  }

  function forget({ metadata }: Machine): void {
    const vm = tracked.get(metadata.uid)
    if (vm !== undefined) stopFollowing(vm)
    tracked.delete(metadata.uid)
    written.forget(metadata)
  }

  return {
    machines,
    async stop() {
      stopping.abort(new Error('the handler was stopped'))
      await machines.stop()
      await queue.drain()
      for (const vm of tracked.values()) stopFollowing(vm)
    },
  }
}

/** To believe a launcher that accepted the VM and still waits for one would be to hand it over without end. */
async function accepted(launcher: Launcher, machine: Machine): Promise<DomainReport> {
  const report = await launcher.put(machine)
  if (report.phase === 'Waiting') throw new InvalidLauncherAnswer('it accepted the VM, and waits for one')
  return report
}

function mustBeAbout({ metadata: { uid } }: Machine, { vmUID, phase }: DomainReport): void {
  if (vmUID === uid || (vmUID === '' && phase === 'Waiting')) return
  throw new InvalidLauncherAnswer('its report is about another VirtualMachine')
}
