import type { MachineStatus, VirtualMachine } from '../api/machine.ts'
import type { Clock } from '../runtime/clock.ts'
import type { KubeClient } from '../runtime/kube.ts'
import { InvalidLauncherAnswer } from '../runtime/launcher-api.ts'
import type { Logger } from '../runtime/log.ts'
import { startReflector, type Reflector } from '../runtime/reflector.ts'
import { keyOf, virtualMachines, type Persisted } from '../runtime/resource.ts'
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
  /** By the VM's uid: since when its launcher has been silent. */
  const silentSince = new Map<string, number>()
  /** By the VM's uid: what we wrote, until the watch has brought it back. */
  const written = new Map<string, Machine>()

  machines.onChange((change) => {
    if (change.kind === 'deleted') forget(change.object.metadata.uid)
    queue.add(keyOf(change.object.metadata))
  })

  async function reconcile(key: string): Promise<void> {
    const stored = machines.store.get(key)
    const podUID = stored?.status?.podUID
    if (stored === undefined || podUID === undefined) return
    const machine = newest(stored)
    const launcher = options.launcherOf(podUID)
    const observation = await observe(machine, podUID, launcher)
    if (observation.kind === 'report') follow(key, machine, launcher)
    await perform(key, machine, podUID, launcher, observation)
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
        const answer = await observed(machine, async () => reported(podUID, await launcher.put(machine)))
        return perform(key, machine, podUID, launcher, answer)
      }
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
      silentSince.delete(uid)
      return observation
    } catch (error) {
      if (error instanceof LauncherRefusal) return { kind: 'refused', reason: error.reason, message: error.message }
      if (error instanceof LauncherAbsent) return { kind: 'absent' }
      if (!(error instanceof LauncherUnreachable || error instanceof InvalidLauncherAnswer)) throw error
      const since = silentSince.get(uid) ?? clock.monotonic()
      silentSince.set(uid, since)
      return { kind: 'unreachable', message: error.message, silentForMs: clock.monotonic() - since }
    }
  }

  /** Each event of the launcher, and the end of the events, is another round. */
  function follow(key: string, machine: Machine, launcher: Launcher): void {
    const { uid } = machine.metadata
    if (following.has(uid)) return
    const stop = new AbortController()
    following.set(uid, stop)
    const run = async () => {
      for await (const _ of launcher.watch(stop.signal)) queue.add(key)
    }
    run().catch((error: unknown) => {
      if (stop.signal.aborted) return
      following.delete(uid)
      log.info({ machine: key, uid, err: error }, 'the launcher’s events ended')
      queue.add(key)
    })
  }

  async function write(machine: Machine, status: MachineStatus): Promise<Machine> {
    const { name, namespace, resourceVersion, uid } = machine.metadata
    const body = [
      { op: 'test', path: '/metadata/uid', value: uid },
      { op: 'replace', path: '/metadata/resourceVersion', value: resourceVersion },
      { op: 'add', path: '/status', value: status },
    ]
    try {
      const after = await kube.patch(
        virtualMachines,
        { name, ...(namespace === undefined ? {} : { namespace }) },
        { type: 'json', body },
        { subresource: 'status' },
      )
      written.set(uid, after)
      return after
    } catch (error) {
      // Somebody wrote in between; the next round, which the watch brings, starts from what they wrote.
      if (isConflict(error) || isNotFound(error)) written.delete(uid)
      throw error
    }
  }

  /** The watch lags behind our own writes by milliseconds; to plan from older than we wrote would write it again. */
  function newest(stored: Machine): Machine {
    const own = written.get(stored.metadata.uid)
    if (own === undefined) return stored
    if (BigInt(own.metadata.resourceVersion) > BigInt(stored.metadata.resourceVersion)) return own
    written.delete(stored.metadata.uid)
    return stored
  }

  function stopFollowing(uid: string): void {
    following.get(uid)?.abort()
    following.delete(uid)
  }

  function forget(uid: string): void {
    stopFollowing(uid)
    silentSince.delete(uid)
    written.delete(uid)
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
