import { isFinished, launcherPodFinalizer, macsOf } from '../api/machine.ts'
import type { MachineStatus, VirtualMachine } from '../api/machine.ts'
import { apiVersion } from '../api/object.ts'
import { askedGraceSeconds } from '../api/template.ts'
import {
  isAlreadyExists,
  isForbidden,
  isInvalid,
  unlessCounting,
  unlessNotFound,
  unlessOutdated,
} from '../runtime/api-error.ts'
import { systemClock, timestamp } from '../runtime/clock.ts'
import type { Clock } from '../runtime/clock.ts'
import type { EventRecorder } from '../runtime/events.ts'
import type { DeleteOptions, KubeClient } from '../runtime/kube.ts'
import type { Logger } from '../runtime/log.ts'
import { createOwnWrites } from '../runtime/own-writes.ts'
import { startReflector } from '../runtime/reflector.ts'
import type { Reflector } from '../runtime/reflector.ts'
import { keyOf, unchanged, virtualMachines } from '../runtime/resource.ts'
import type { KubeObject, ObjectRef, Persisted } from '../runtime/resource.ts'
import { startWorkQueue } from '../runtime/work-queue.ts'
import type { WorkQueue, WorkQueueStatistics } from '../runtime/work-queue.ts'
import type { Engine } from './engine.ts'
import { keepOff } from './keep-off.ts'
import { claimsOf, podGraceSeconds, podName, vmUidLabel } from './launcher-pod.ts'
import { plan, refusedToCreate } from './plan.ts'
import type { Action, Completion, Observed } from './plan.ts'
import { nodes, onlyReadiness, stateOf } from './node.ts'
import type { Node } from './node.ts'
import { persistentVolumeClaims, pods } from './pod.ts'
import { completionRefused } from './status.ts'
import type { Claim, Pod } from './pod.ts'

type Machine = Persisted<VirtualMachine>

export interface ControllerOptions {
  readonly kube: KubeClient
  readonly engine: Engine
  readonly events: EventRecorder
  readonly log: Logger
  /** The launcher's image. */
  readonly image: string
  /** Asked before each write: a replica that no longer leads must not write. */
  readonly isLeader: () => boolean
  readonly clock?: Clock
}

/** Fills its caches at once, so that it can take over at any time; acts only once told to lead. */
export interface Controller {
  readonly machines: Reflector<VirtualMachine, 'node' | 'mac'>
  readonly pods: Reflector<Pod>
  readonly nodes: Reflector<Node>
  /** Begins to act on all VMs, and then on each that changes. */
  lead(): void
  /** A preset or namespace changed: VMs that were never completed get another chance. */
  reconsiderIncomplete(): void
  statistics(): WorkQueueStatistics | undefined
  stop(): Promise<void>
}

/** VMs worked on at once; a round is a few requests, so this many fill the pool of connections. */
const concurrency = 10
/** The cache is this far behind at most when a pod that it does not have turns out to exist. */
const cacheLagMs = 100

export function startController(options: ControllerOptions): Controller {
  const { kube, engine, events, log, image, isLeader, clock = systemClock } = options
  const machines = startReflector({
    kube,
    resource: virtualMachines,
    log,
    clock,
    indexers: {
      node: ({ status }: VirtualMachine) => (status?.nodeName === undefined ? [] : [status.nodeName]),
      mac: ({ spec }: VirtualMachine) => macsOf(spec),
    },
  })
  const nodeCache = startReflector({ kube, resource: nodes, log, clock, transform: onlyReadiness })
  const podCache = startReflector({ kube, resource: pods, log, clock, labelSelector: vmUidLabel })
  const written = createOwnWrites<VirtualMachine>()
  let queue: WorkQueue | undefined
  let isStopped = false

  machines.onChange(({ kind, object }) => {
    if (kind === 'deleted') written.forget(object.metadata)
    queue?.add(keyOf(object.metadata))
  })
  podCache.onChange(({ object }) => {
    const owner = object.metadata.ownerReferences?.find(
      ({ kind, controller }) => controller === true && kind === 'VirtualMachine',
    )
    if (owner) queue?.add(keyOf({ ...object.metadata, name: owner.name }))
  })

  nodeCache.onChange((change) => {
    const { object } = change
    if (change.kind === 'updated' && stateOf(change.previous) === stateOf(object)) return
    for (const { metadata } of machines.store.byIndex('node', object.metadata.name)) queue?.add(keyOf(metadata))
  })

  const reconcile = async (key: string): Promise<void> => {
    const cached = machines.store.get(key)
    if (!cached) return
    const machine = written.newest(cached)
    await perform(key, machine, plan(await observe(machine)))
  }

  const observe = async (machine: Machine): Promise<Observed> => {
    const pod = await findPod(machine)
    const completion = completionOf(machine)
    const isStarting = completion.kind === 'done' && machine.status?.podUID === undefined && !isEnding(machine)
    return {
      machine,
      pod,
      completion,
      image,
      nowMs: clock.now(),
      claims: isStarting ? await findClaims(machine) : new Map<string, Claim>(),
      node: stateOf(nodeCache.store.get(machine.status?.nodeName ?? '')),
    }
  }

  /** What the cache does not have is asked of the API server: nothing is concluded from a cache that may lag. */
  const findPod = async (machine: Machine): Promise<Persisted<Pod> | undefined> => {
    const ref = { ...refOf(machine), name: podName(machine) }
    const cached = podCache.store.get(keyOf(ref))
    if (cached || (isFinished(machine) && !isEnding(machine))) return cached
    return unlessNotFound(kube.get(pods, ref))
  }

  const findClaims = async (machine: Machine): Promise<Map<string, Claim>> => {
    const found = new Map<string, Claim>()
    for (const name of claimsOf(machine)) {
      const claim = await unlessNotFound(kube.get(persistentVolumeClaims, { ...refOf(machine), name }))
      if (claim) found.set(name, claim)
    }
    return found
  }

  const completionOf = (machine: Machine): Completion => {
    const presets = engine.presetsOf(machine)
    if (presets) {
      const causes = machine.status?.podUID === undefined ? engine.refusals(machine) : []
      return causes.length > 0 ? { kind: 'refused', causes } : { kind: 'done', presets: [...presets.keys()].toSorted() }
    }
    if (isEnding(machine) || isFinished(machine)) return { kind: 'done', presets: [] }
    const outcome = engine.complete(machine)
    return 'causes' in outcome
      ? { kind: 'refused', causes: outcome.causes }
      : { kind: 'todo', machine: withIdentity(outcome.machine, machine) }
  }

  const perform = async (key: string, machine: Machine, actions: readonly Action[]): Promise<void> => {
    for (const action of actions) {
      if (!isLeader()) throw new Error('no longer leading')
      log.debug({ machine: key, uid: machine.metadata.uid, action: action.do }, 'acting')
      const more = await act(key, machine, action)
      if (more) return perform(key, machine, more)
    }
  }

  /** Gives back what to do instead of the rest, if the action could not be done. */
  const act = async (key: string, machine: Machine, action: Action): Promise<readonly Action[] | undefined> => {
    switch (action.do) {
      case 'complete':
        written.note(await kube.update(virtualMachines, action.machine))
        return undefined
      case 'hold':
        written.note(await patchFinalizers(machine, [...(machine.metadata.finalizers ?? []), launcherPodFinalizer]))
        return undefined
      case 'create':
        return create(machine, keepOff(action.pod, engine.unfitNodes(machine)))
      case 'delete':
        await unlessNotFound(kube.delete(pods, refOf(action.pod), deletionOf(machine, action.pod)))
        return undefined
      case 'write':
        written.note(await writeStatus(machine, action.status))
        return undefined
      case 'release': {
        const others = (machine.metadata.finalizers ?? []).filter((name) => name !== launcherPodFinalizer)
        await unlessNotFound(patchFinalizers(machine, others))
        return undefined
      }
      case 'tell':
        tell(machine, action)
        return undefined
      case 'again':
        queue?.addAfter(key, action.afterMs)
        return undefined
    }
  }

  const create = async (machine: Machine, pod: Pod): Promise<readonly Action[] | undefined> => {
    try {
      await unlessCounting(kube.create(pods, pod))
      return undefined
    } catch (error) {
      if (isAlreadyExists(error)) return [{ do: 'again', afterMs: cacheLagMs }]
      if (isForbidden(error) || isInvalid(error))
        return refusedToCreate(machine, error.status.message, timestamp(clock))
      throw error
    }
  }

  const patchFinalizers = (machine: Machine, finalizers: readonly string[]): Promise<Machine> => {
    const body = [...unchanged(machine), { op: 'add', path: '/metadata/finalizers', value: finalizers }]
    return kube.patch(virtualMachines, refOf(machine), { type: 'json', body })
  }

  const writeStatus = (machine: Machine, status: MachineStatus): Promise<Machine> => {
    const body = [...unchanged(machine), { op: 'add', path: '/status', value: status }]
    return kube.patch(virtualMachines, refOf(machine), { type: 'json', body }, { subresource: 'status' })
  }

  const tell = ({ metadata }: Machine, { type, reason, message }: Action & { do: 'tell' }) => {
    const regarding = { apiVersion, kind: 'VirtualMachine', ...refOf({ metadata }), uid: metadata.uid }
    events.record({ regarding, type, reason, message })
  }

  const addAll = (isWanted: (machine: VirtualMachine) => boolean) => {
    for (const machine of machines.store.list()) if (isWanted(machine)) queue?.add(keyOf(machine.metadata))
  }

  return {
    machines,
    pods: podCache,
    nodes: nodeCache,
    lead() {
      const synced = Promise.all([machines.synced(), podCache.synced(), nodeCache.synced()])
      synced.then(
        () => {
          // What was stopped while it waited must not begin: nobody would end it.
          if (isStopped) return
          queue = startWorkQueue({ reconcile: unlessOutdated(reconcile), concurrency, log, clock })
          addAll(() => true)
        },
        () => log.info('stopped before the caches were filled'),
      )
    },
    reconsiderIncomplete: () => addAll(({ status }) => status?.reason === completionRefused),
    statistics: () => queue?.statistics(),
    async stop() {
      isStopped = true
      await queue?.drain()
      await Promise.all([machines.stop(), podCache.stop(), nodeCache.stop()])
    },
  }
}

/** This pod and no other; with another grace period than it was made with only if somebody asked for that. */
function deletionOf(machine: Machine, pod: Persisted<Pod>): DeleteOptions {
  const { uid } = pod.metadata
  return askedGraceSeconds(machine) === undefined ? { uid } : { uid, gracePeriodSeconds: podGraceSeconds(machine) }
}

/** Completion knows nothing of where an object is stored; the finalizer comes with it, before any pod. */
function withIdentity(completed: VirtualMachine, stored: Machine): Machine {
  const { finalizers = [] } = stored.metadata
  const held = finalizers.includes(launcherPodFinalizer) ? finalizers : [...finalizers, launcherPodFinalizer]
  const { name, uid, resourceVersion } = stored.metadata
  return { ...completed, metadata: { ...completed.metadata, name, uid, resourceVersion, finalizers: held } }
}

function isEnding({ metadata }: VirtualMachine): boolean {
  return metadata.deletionTimestamp !== undefined
}

function refOf({ metadata }: Persisted<KubeObject>): ObjectRef {
  const { namespace, name } = metadata
  return namespace === undefined ? { name } : { namespace, name }
}
