import { unlessOutdated } from '../runtime/api-error.ts'
import type { Clock } from '../runtime/clock.ts'
import type { EventRecorder } from '../runtime/events.ts'
import type { KubeClient } from '../runtime/kube.ts'
import type { Logger } from '../runtime/log.ts'
import { createOwnWrites } from '../runtime/own-writes.ts'
import type { Reflector } from '../runtime/reflector.ts'
import { apiVersionOf, keyOf, refOf, unchanged } from '../runtime/resource.ts'
import type { KubeObject, ObjectRef, Persisted, Resource } from '../runtime/resource.ts'
import { statusPatch } from '../runtime/status-patch.ts'
import { startWorkQueue } from '../runtime/work-queue.ts'
import type { WorkQueue, WorkQueueStatistics } from '../runtime/work-queue.ts'
import type { CommonAction } from './action.ts'

type WithStatus = KubeObject & { readonly status?: object }

/** What every controller needs from its process. */
export interface ControllerContext {
  readonly kube: KubeClient
  readonly events: Pick<EventRecorder, 'record'>
  readonly log: Logger
  /**
   * Checked before each action: a replica that no longer leads must not write. `kube` checks it again when it sends a
   * write.
   */
  readonly isLeader: () => boolean
  readonly clock: Clock
}

interface LoopOptions<T extends WithStatus> extends ControllerContext {
  /** One pass over the object with this key. It throws to be called again with back-off. */
  readonly reconcile: (key: string) => Promise<void>
  /** Keys to reconcile when the loop starts, and after a gap in the events of a cache. */
  readonly keys: () => Iterable<string>
  /** The loop starts when these are filled. */
  readonly caches: readonly (Pick<Reflector<KubeObject>, 'synced'> & Partial<Pick<Reflector<KubeObject>, 'onGap'>>)[]
  /** Keys worked on at once. */
  readonly concurrency: number
  /** What the cache stores of an object, for the responses to this process's own writes. */
  readonly slim?: (object: Persisted<T>) => Persisted<T>
}

/**
 * The loop that all controllers share: observe → plan → perform, one worker for each key.
 *
 *     change of a watched object → add(key) → reconcile(key) → perform(actions) → wait for the next change
 *
 * Guarantees
 *
 * - Nothing is reconciled before `lead()`, before the caches are filled, or after `stop()`.
 * - Namespaces take turns, and one never takes all workers, so a tenant with many or failing objects does not delay
 *   others.
 * - One worker for each key. A change during a pass leads to another pass; a pass that throws is repeated with
 *   back-off.
 * - A pass starts from an object that is at least as new as the last write of this process (`newest`).
 * - Each action checks the leadership, as does each write when it is sent, and each write names the version it is based
 *   on. A conflict ends the pass silently: the change that caused it leads to the next one.
 *
 * Assumptions: a plan is a function of what was observed, so a pass may end after any of its actions. Actions that are
 * not writes to the object, such as creating a pod, are idempotent.
 */
interface Loop<T extends WithStatus> {
  /** Does nothing while the loop does not lead. */
  add(key: string): void
  addAfter(key: string, delayMs: number): void
  /** The cached object, or a newer version that this process has written. */
  newest(cached: Persisted<T>): Persisted<T>
  /** Records the API server's response to a write. */
  noteWrite(written: Persisted<T>): void
  /** The object of this name was deleted. */
  forget(ref: ObjectRef): void
  /**
   * Performs the actions in order. `act` handles those that are not common; where it returns actions, they replace the
   * rest.
   */
  perform<Status extends object, Own extends { readonly do: string }>(
    target: Target<T>,
    actions: readonly (CommonAction<Status> | Own)[],
    act: (action: Own) => Promise<readonly (CommonAction<Status> | Own)[] | undefined>,
  ): Promise<void>
  recordEvent(target: Target<T>, type: 'Normal' | 'Warning', reason: string, message: string): void
  /** @throws if this process does not lead */
  assertLeading(): void
  /** Resolves when the first keys are queued; rejects when the loop is stopped before. */
  lead(): Promise<void>
  statistics(): WorkQueueStatistics | undefined
  /** Resolves when the running passes have ended. */
  stop(): Promise<void>
}

/** An object and the kind of its resource. */
interface Target<T extends WithStatus> {
  readonly resource: Resource<T>
  readonly object: Persisted<T>
}

/** One namespace never takes all workers. */
const shareOfNamespace = 0.75

/** Empty for cluster-scoped objects. */
const namespaceOf = (key: string): string => refOf(key).namespace ?? ''

const commonActions: readonly string[] = ['updateStatus', 'recordEvent', 'requeueAfter']

export function createLoop<T extends WithStatus>(options: LoopOptions<T>): Loop<T> {
  const { kube, events, log, isLeader, clock, concurrency, slim = (object) => object } = options
  const groups = { of: namespaceOf, concurrency: Math.ceil(concurrency * shareOfNamespace) }
  const written = createOwnWrites<T>()
  const stopping = new AbortController()
  let queue: WorkQueue | undefined
  let leading: Promise<void> | undefined

  const addAll = () => {
    for (const key of options.keys()) queue?.add(key)
  }

  const begin = async (): Promise<void> => {
    await Promise.all(options.caches.map((cache) => cache.synced(stopping.signal)))
    stopping.signal.throwIfAborted()
    queue = startWorkQueue({ reconcile: unlessOutdated(options.reconcile), concurrency, groups, log, clock })
    addAll()
    // What a pass has created may be gone again, and no change would tell of it.
    for (const cache of options.caches) cache.onGap?.(addAll)
  }

  const assertLeading = () => {
    if (!isLeader()) throw new Error('no longer leading')
  }

  const noteWrite = (object: Persisted<T>) => written.note(slim(object))

  const updateStatus = async ({ resource, object }: Target<T>, status: object): Promise<void> => {
    const body = [...unchanged(object), ...statusPatch(object, status)]
    const ref = refOf(keyOf(object.metadata))
    noteWrite(await kube.patch(resource, ref, { type: 'json', body }, { subresource: 'status' }))
  }

  const recordEvent: Loop<T>['recordEvent'] = ({ resource, object }, type, reason, message) => {
    const { uid } = object.metadata
    const regarding = { apiVersion: apiVersionOf(resource), kind: resource.kind, ...refOf(keyOf(object.metadata)), uid }
    events.record({ regarding, type, reason, message })
  }

  return {
    add: (key) => queue?.add(key),
    addAfter: (key, delayMs) => queue?.addAfter(key, delayMs),
    newest: (cached) => written.newest(cached),
    noteWrite,
    forget: (ref) => written.forget(ref),
    async perform(target, actions, act) {
      const { kind } = target.resource
      const { uid } = target.object.metadata
      const key = keyOf(target.object.metadata)
      let left = [...actions]
      for (let action = left.shift(); action !== undefined; action = left.shift()) {
        assertLeading()
        log.debug({ kind, key, uid, action: action.do }, 'acting')
        if (isCommon(action)) {
          if (action.do === 'updateStatus') await updateStatus(target, action.status)
          else if (action.do === 'recordEvent') recordEvent(target, action.type, action.reason, action.message)
          else queue?.addAfter(key, action.afterMs)
        } else left = [...((await act(action)) ?? left)]
      }
    },
    recordEvent,
    assertLeading,
    lead() {
      leading = begin()
      return leading
    },
    statistics: () => queue?.statistics(),
    async stop() {
      stopping.abort(new Error('stopped'))
      await leading?.catch(() => {})
      await queue?.drain()
    },
  }
}

function isCommon<Status, Own extends { readonly do: string }>(
  action: CommonAction<Status> | Own,
): action is CommonAction<Status> {
  return commonActions.includes(action.do)
}
