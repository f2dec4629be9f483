import type { MachineStatus, VirtualMachine } from '../api/machine.ts'
import { sleep, type Clock } from '../runtime/clock.ts'
import type { KubeClient } from '../runtime/kube.ts'
import { InvalidLauncherAnswer, type DomainReport } from '../runtime/launcher-api.ts'
import type { Logger } from '../runtime/log.ts'
import { createOwnWrites } from '../runtime/own-writes.ts'
import { startReflector, type Reflector } from '../runtime/reflector.ts'
import { keyOf, unchanged, virtualMachines, type Persisted } from '../runtime/resource.ts'
import { createBucket, type Bucket } from '../runtime/bucket.ts'
import { startWorkQueue } from '../runtime/work-queue.ts'
import { isConflict, isNotFound } from '../runtime/api-error.ts'
import { LauncherAbsent, LauncherRefusal, LauncherUnreachable, type Launcher } from './launcher.ts'
import { plan, type Action, type Observation } from './plan.ts'

type Machine = Persisted<VirtualMachine>

export interface HandlerOptions {
  readonly kube: KubeClient
  readonly nodeName: string
  /** The launcher in the pod with this uid, and the pod's address once it has one. */
  readonly launcherOf: (podUID: string) => Launcher
  readonly addressOf: (podUID: string) => Promise<string | undefined>
  readonly tell: (machine: Machine, type: 'Normal' | 'Warning', reason: string, message: string) => void
  readonly log: Logger
  readonly clock: Clock
}

export interface Handler {
  readonly machines: Reflector<VirtualMachine>
  stop(): Promise<void>
}

/** A start takes half a second of waiting for QEMU; more at once only makes each slower. */
const concurrency = 8

/** A life has a dozen events and writes. More than this may be a guest that broke out of QEMU. */
const mostAtOnce = 20
const perSecond = 1
const lookAgainMs = 1000

/**
 * Brings the VMs of one node to what their specs say: hands each to its launcher, and writes what the launcher says of it.
 *
 * All it keeps in memory can be lost: a round starts from the VM as stored and the launcher's answer. A launcher's event is only a
 * reason for another round. While a launcher does not answer nothing is concluded from that; what becomes of its pod is the controller's
 * matter.
 */
export function startHandler(options: HandlerOptions): Handler {
  const { kube, nodeName, tell, log, clock } = options
  const machines = startReflector({
    kube,
    resource: virtualMachines,
    log,
    fieldSelector: `status.nodeName=${nodeName}`,
  })
  const queue = startWorkQueue({ reconcile, concurrency, log, clock })
  /** By the VM's uid: following its launcher's events. */
  const following = new Map<string, AbortController>()
  /** By the VM's uid: since when its launcher has not said how it is. */
  const silentSince = new Map<string, number>()
  const written = createOwnWrites<VirtualMachine>()
  /** By the VM's uid: writes that its launcher may still cause. Each brings another round, in which it may say something else again. */
  const budgets = new Map<string, Bucket>()

  machines.onChange((change) => {
    if (change.kind === 'deleted') forget(change.object)
    queue.add(keyOf(change.object.metadata))
  })

  async function reconcile(key: string): Promise<void> {
    const stored = machines.store.get(key)
    const podUID = stored?.status?.podUID
    if (stored === undefined || podUID === undefined) return
    const machine = written.newest(stored)
    const launcher = options.launcherOf(podUID)
    try {
      const observation = await observe(machine, podUID, launcher)
      if (observation.kind === 'report') follow(key, machine, launcher)
      await perform(key, machine, podUID, launcher, observation)
    } finally {
      // It may be gone since, and nobody would tell of it again.
      if (machines.store.get(key)?.metadata.uid !== machine.metadata.uid) forget(machine)
    }
  }

  async function perform(
    key: string,
    before: Machine,
    podUID: string,
    launcher: Launcher,
    observation: Observation,
  ): Promise<void> {
    let machine = before
    for (const action of plan(machine, observation, new Date(clock.now()))) {
      log.debug({ machine: key, uid: machine.metadata.uid, action: action.do }, 'handling')
      if (action.do === 'put') {
        const answer = await observed(machine, async () => reported(podUID, await taken(launcher, machine)))
        return perform(key, machine, podUID, launcher, answer)
      }
      if (action.do === 'write' && !mayWrite(machine)) return queue.addAfter(key, lookAgainMs)
      machine = await act(key, machine, launcher, action)
    }
  }

  async function act(
    key: string,
    machine: Machine,
    launcher: Launcher,
    action: Exclude<Action, { do: 'put' }>,
  ): Promise<Machine> {
    switch (action.do) {
      case 'write':
        return write(machine, action.status)
      case 'tell':
        tell(machine, action.type, action.reason, action.message)
        return machine
      case 'again':
        queue.addAfter(key, action.afterMs)
        return machine
      case 'shutdown':
        await launcher.shutdown(action.gracePeriodSeconds)
        return machine
      case 'destroy':
        await launcher.destroy()
        return machine
      case 'final':
        stopFollowing(machine.metadata.uid)
        // The launcher goes by itself after some seconds; that it has gone already is as good.
        await launcher.final().catch((error: unknown) => {
          if (!(error instanceof LauncherUnreachable)) throw error
        })
        return machine
    }
  }

  function observe(machine: Machine, podUID: string, launcher: Launcher): Promise<Observation> {
    return observed(machine, async () => reported(podUID, await launcher.report()))
  }

  async function reported(podUID: string, report: Awaited<ReturnType<Launcher['report']>>): Promise<Observation> {
    const podIP = await options.addressOf(podUID)
    return { kind: 'report', report, ...(podIP === undefined ? {} : { podIP }) }
  }

  async function observed(machine: Machine, ask: () => Promise<Observation>): Promise<Observation> {
    const { uid } = machine.metadata
    try {
      const observation = await ask()
      // One that waits has said nothing yet; it may go on to refuse what it waits for.
      if (observation.kind === 'report' && observation.report.phase !== 'Waiting') silentSince.delete(uid)
      return observation
    } catch (error) {
      if (error instanceof LauncherAbsent) return { kind: 'absent' }
      const since = silentSince.get(uid) ?? clock.monotonic()
      silentSince.set(uid, since)
      const silentForMs = clock.monotonic() - since
      if (error instanceof LauncherRefusal) {
        return { kind: 'refused', reason: error.reason, message: error.message, silentForMs }
      }
      if (!(error instanceof LauncherUnreachable || error instanceof InvalidLauncherAnswer)) throw error
      return { kind: 'unreachable', message: error.message, silentForMs }
    }
  }

  /**
   * Each report of the launcher, and the end of its events, is another round. One that talks without end is read once a second: what it
   * says beyond that waits in its own buffers.
   */
  function follow(key: string, machine: Machine, launcher: Launcher): void {
    const { uid } = machine.metadata
    if (following.has(uid)) return
    const stop = new AbortController()
    following.set(uid, stop)
    const budget = createBucket(perSecond, mostAtOnce, clock)
    const run = async () => {
      for await (const event of launcher.watch(stop.signal)) {
        if (event.kind === 'report') queue.add(key)
        const waitMs = budget.take()
        if (waitMs > 0) await sleep(clock, waitMs, stop.signal)
      }
    }
    run().catch((error: unknown) => {
      if (stop.signal.aborted) return
      following.delete(uid)
      log.info({ machine: key, uid, err: error }, 'the launcher’s events ended')
      queue.addAfter(key, lookAgainMs)
    })
  }

  function mayWrite({ metadata: { uid } }: Machine): boolean {
    const budget = budgets.get(uid) ?? createBucket(perSecond, mostAtOnce, clock)
    budgets.set(uid, budget)
    return budget.takeIfAny()
  }

  async function write(machine: Machine, status: MachineStatus): Promise<Machine> {
    const { name, namespace } = machine.metadata
    const body = [...unchanged(machine), { op: 'add', path: '/status', value: status }]
    try {
      const after = await kube.patch(
        virtualMachines,
        { name, ...(namespace === undefined ? {} : { namespace }) },
        { type: 'json', body },
        { subresource: 'status' },
      )
      written.note(after)
      return after
    } catch (error) {
      // Somebody wrote in between; the next round, which the watch brings, starts from what they wrote.
      if (isConflict(error) || isNotFound(error)) written.forget(machine.metadata)
      throw error
    }
  }

  function stopFollowing(uid: string): void {
    following.get(uid)?.abort()
    following.delete(uid)
  }

  function forget({ metadata }: Machine): void {
    stopFollowing(metadata.uid)
    silentSince.delete(metadata.uid)
    budgets.delete(metadata.uid)
    written.forget(metadata)
  }

  return {
    machines,
    async stop() {
      await machines.stop()
      await queue.drain()
      for (const uid of following.keys()) stopFollowing(uid)
    },
  }
}

/** A launcher that took the VM has one; to believe that it still waits would be to hand it over without end. */
async function taken(launcher: Launcher, machine: Machine): Promise<DomainReport> {
  const report = await launcher.put(machine)
  if (report.phase === 'Waiting') throw new InvalidLauncherAnswer('it took the VM, and waits for one')
  return report
}
