import type { VirtualMachineConfig } from '../api/config.ts'
import type { VirtualMachine } from '../api/machine.ts'
import { apiVersion } from '../api/object.ts'
import { controllerOf, gracePeriodAnnotation, isOwning, machineOf } from '../api/template.ts'
import { revisionOf } from '../presets/compile.ts'
import { isForbidden, isInvalid, unlessCounting, unlessNotFound, unlessOutdated } from '../runtime/api-error.ts'
import { systemClock, timestamp } from '../runtime/clock.ts'
import type { Clock } from '../runtime/clock.ts'
import type { EventRecorder } from '../runtime/events.ts'
import type { KubeClient } from '../runtime/kube.ts'
import type { Logger } from '../runtime/log.ts'
import { createOwnWrites } from '../runtime/own-writes.ts'
import { startReflector } from '../runtime/reflector.ts'
import type { Reflector } from '../runtime/reflector.ts'
import { keyOf, refOf, unchanged, virtualMachineConfigs, virtualMachines } from '../runtime/resource.ts'
import type { Persisted } from '../runtime/resource.ts'
import { startWorkQueue } from '../runtime/work-queue.ts'
import type { WorkQueue, WorkQueueStatistics } from '../runtime/work-queue.ts'
import { planConfig, refusedToRestart } from './config-plan.ts'
import type { ConfigAction, ObservedConfig } from './config-plan.ts'

type Config = Persisted<VirtualMachineConfig>
type Machine = Persisted<VirtualMachine>

export interface ConfigControllerOptions {
  readonly kube: KubeClient
  readonly machines: Reflector<VirtualMachine>
  readonly events: EventRecorder
  readonly log: Logger
  readonly isLeader: () => boolean
  readonly clock?: Clock
}

/** Keeps `status` of configs, and finishes restarts. */
export interface ConfigController {
  readonly configs: Reflector<VirtualMachineConfig>
  /** Begins to act. Resolves when every restart that was left in the middle has been looked at once: only then may VMs be let go. Throws when it is stopped. */
  lead(): Promise<void>
  statistics(): WorkQueueStatistics | undefined
  stop(): Promise<void>
}

const concurrency = 4
/** How soon a refused restart is tried again: what refused it may be a preset that somebody is about to mend. */
const refusedAgainMs = 15_000

export function startConfigController(options: ConfigControllerOptions): ConfigController {
  const { kube, machines, events, log, isLeader, clock = systemClock } = options
  const configs = startReflector({ kube, resource: virtualMachineConfigs, log, clock })
  const written = createOwnWrites<VirtualMachineConfig>()
  let queue: WorkQueue | undefined
  let leading: Promise<void> | undefined
  const stopping = new AbortController()

  configs.onChange(({ kind, object }) => {
    if (kind === 'deleted') written.forget(object.metadata)
    queue?.add(keyOf(object.metadata))
  })
  // A config's VM has its name; a VM of that name that is somebody else's is of interest, too.
  machines.onChange(({ object }) => {
    const owner = controllerOf(object)
    const isConfigs = owner !== undefined && isOwning(owner) && owner.kind === 'VirtualMachineConfig'
    if (isConfigs || configs.store.get(keyOf(object.metadata)) !== undefined) queue?.add(keyOf(object.metadata))
  })

  const reconcile = async (key: string): Promise<void> => {
    const cached = configs.store.get(key)
    const observed = cached && (await observe(key, written.newest(cached)))
    if (observed) await perform(key, observed, planConfig(observed))
  }

  /** A restart must happen once: while one is wished for, nothing is concluded from a cache that may lag. */
  const observe = async (key: string, known: Config): Promise<ObservedConfig | undefined> => {
    const isRestarting = known.status?.restart !== undefined
    const config = isRestarting ? await unlessNotFound(kube.get(virtualMachineConfigs, refOf(key))) : known
    if (config === undefined) return undefined
    const machine = isRestarting ? await unlessNotFound(kube.get(virtualMachines, refOf(key))) : machines.store.get(key)
    return { config, machine, revision: revisionOf(config.spec.template), now: timestamp(clock) }
  }

  const perform = async (key: string, observed: ObservedConfig, actions: readonly ConfigAction[]): Promise<void> => {
    for (const action of actions) {
      if (!isLeader()) throw new Error('no longer leading')
      log.debug({ config: key, action: action.do }, 'acting')
      await act(key, observed, action)
    }
  }

  const act = async (key: string, observed: ObservedConfig, action: ConfigAction): Promise<void> => {
    const { config } = observed
    switch (action.do) {
      case 'create':
        return create(key, observed)
      case 'delete':
        return remove(key, action.machine, action.gracePeriodSeconds)
      case 'write': {
        const body = [...unchanged(config), { op: 'add', path: '/status', value: action.status }]
        const patch = { type: 'json', body } as const
        return written.note(await kube.patch(virtualMachineConfigs, refOf(key), patch, { subresource: 'status' }))
      }
      case 'tell': {
        const { type, reason, message } = action
        const regarding = { apiVersion, kind: 'VirtualMachineConfig', ...refOf(key), uid: config.metadata.uid }
        return events.record({ regarding, type, reason, message })
      }
    }
  }

  const create = async (key: string, observed: ObservedConfig): Promise<void> => {
    const { config, revision } = observed
    const owner = { ...config, kind: 'VirtualMachineConfig' } as const
    try {
      await unlessCounting(kube.create(virtualMachines, machineOf(owner, config.metadata.name, revision)))
    } catch (error) {
      if (!isForbidden(error) && !isInvalid(error)) throw error
      await perform(key, observed, refusedToRestart(observed, error.status.message))
      queue?.addAfter(key, refusedAgainMs)
    }
  }

  const remove = async (key: string, { metadata }: Machine, gracePeriodSeconds: number | undefined): Promise<void> => {
    const { uid } = metadata
    if (gracePeriodSeconds !== undefined) {
      const annotations = { [gracePeriodAnnotation]: String(gracePeriodSeconds) }
      await kube.patch(virtualMachines, refOf(key), { type: 'merge', body: { metadata: { uid, annotations } } })
    }
    await kube.delete(virtualMachines, refOf(key), { uid })
  }

  const begin = async (): Promise<void> => {
    await Promise.all([configs.synced(), machines.synced(stopping.signal)])
    const wished = configs.store.list().filter(({ status }) => status?.restart !== undefined)
    const looked = await Promise.allSettled(wished.map(({ metadata }) => reconcile(keyOf(metadata))))
    for (const one of looked) if (one.status === 'rejected') log.warn({ err: one.reason }, 'a restart goes on later')
    stopping.signal.throwIfAborted()
    queue = startWorkQueue({ reconcile: unlessOutdated(reconcile), concurrency, log, clock })
    for (const { metadata } of configs.store.list()) queue.add(keyOf(metadata))
  }

  return {
    configs,
    lead() {
      leading = begin()
      return leading
    },
    statistics: () => queue?.statistics(),
    async stop() {
      stopping.abort(new Error('stopped'))
      await Promise.all([configs.stop(), leading?.catch(() => {})])
      await queue?.drain()
    },
  }
}
