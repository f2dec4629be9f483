import { isRecord } from '../api/schema.ts'
import { ApiError, isExpired } from './api-error.ts'
import { createBackOff } from './back-off.ts'
import { sleep, systemClock } from './clock.ts'
import type { Clock } from './clock.ts'
import type { KubeClient, List } from './kube.ts'
import type { Logger } from './log.ts'
import type { KubeObject, Persisted, Resource } from './resource.ts'
import { createStore } from './store.ts'
import type { Change, Indexers, Store } from './store.ts'

export interface ReflectorOptions<T extends KubeObject, Index extends string> {
  readonly kube: KubeClient
  readonly resource: Resource<T>
  readonly log: Logger
  /** Absent: all namespaces. */
  readonly namespace?: string
  readonly labelSelector?: string
  readonly fieldSelector?: string
  readonly indexers?: Indexers<T, Index>
  /** Drops what nobody reads, before it is stored. managedFields and kubectl's last-applied annotation go in any case. */
  readonly transform?: (object: Persisted<T>) => Persisted<T>
  /**
   * There may be many, and large ones: they are always listed in pages, and transformed page by page, so that neither all of them are in memory
   * at once as they came, nor the event loop waits for all.
   */
  readonly isLarge?: boolean
  readonly clock?: Clock
  readonly random?: () => number
}

/**
 * Keeps a store equal to what the API server has: lists, then watches, for as long as it runs.
 *
 * Promised: every change is told once, in order, deletions included, even those that happened while no watch was open. No
 * answer of the API server and no handler can end it; only `stop` does. Not promised: that the store is up to date. `ageMs` says
 * how long ago the API server was last heard of.
 */
export interface Reflector<T extends KubeObject, Index extends string = never> {
  readonly store: Store<T, Index>
  /** Calls `handler` for all that is there already, and from then on for each change. What it throws is logged. */
  onChange(handler: (change: Change<T>) => void | Promise<void>): void
  /** Whether the store has been filled once. */
  hasSynced(): boolean
  synced(signal?: AbortSignal): Promise<void>
  /** Milliseconds since the API server last said anything about this kind; Infinity before it ever did. */
  ageMs(): number
  statistics(): ReflectorStatistics
  /** Resolves when nothing of it runs any more. */
  stop(): Promise<void>
}

export interface ReflectorStatistics {
  readonly resource: string
  readonly objects: number
  readonly lists: number
  readonly watches: number
  readonly failures: number
}

/** As client-go: back-off from 0.8 s to 30 s, starting anew after two healthy minutes. */
const backOffMs = { firstMs: 800, longestMs: 30_000, healthyMs: 120_000 }
/** As client-go: a watch is asked to last 5 to 10 minutes, so that the watches of many clients do not end together. */
const shortestWatchSeconds = 300
/** Bookmarks come each minute; three missed mean a dead connection. A server without bookmarks costs us one more watch. */
const idleMs = 200_000
/** How much longer than asked a watch may last before we end it. */
const overtimeMs = 30_000
const pageSize = 500
/** Of what is large: a page is taken apart within tens of milliseconds. */
const smallPageSize = 100
/** A watch that ends sooner than this without a word counts as a failure, or it would be repeated without pause. */
const shortestHealthyWatchMs = 1000

/** What to go on from: a version to watch from, or a list to be made first. */
type Position = { readonly watch: string } | { readonly list: string }

export function startReflector<T extends KubeObject, Index extends string = never>(
  options: ReflectorOptions<T, Index>,
): Reflector<T, Index> {
  const { kube, resource, namespace, labelSelector, fieldSelector, clock = systemClock, random = Math.random } = options
  const log = options.log.child({ resource: resource.plural })
  const selection = {
    ...(namespace === undefined ? {} : { namespace }),
    ...(labelSelector === undefined ? {} : { labelSelector }),
    ...(fieldSelector === undefined ? {} : { fieldSelector }),
  }
  const store = createStore<T, Index>(options.indexers)
  const handlers: ((change: Change<T>) => void | Promise<void>)[] = []
  const stopping = new AbortController()
  const firstList = Promise.withResolvers<void>()
  const counts = { lists: 0, watches: 0, failures: 0 }
  let isSynced = false
  let heardAtMs = -Infinity

  const call = (handler: (change: Change<T>) => void | Promise<void>, change: Change<T>) => {
    const failed = (error: unknown) => log.error({ err: error }, 'a handler of changes failed')
    try {
      Promise.resolve(handler(change)).catch(failed)
    } catch (error) {
      failed(error)
    }
  }

  const tell = (changes: readonly Change<T>[]) => {
    for (const change of changes) for (const handler of handlers) call(handler, change)
  }

  const heard = () => {
    heardAtMs = clock.monotonic()
  }

  const prepare = (object: Persisted<T>): Persisted<T> => {
    const bare = withoutBallast(object)
    return options.transform ? options.transform(bare) : bare
  }

  const list = async (resourceVersion: string): Promise<Position> => {
    counts.lists++
    const version = options.isLarge ? '' : resourceVersion
    const limit = options.isLarge ? smallPageSize : pageSize
    const found = await listAll(kube, resource, { ...selection, signal: stopping.signal }, version, limit, prepare)
    heard()
    tell(store.replace(found.items))
    isSynced = true
    firstList.resolve()
    return { watch: found.resourceVersion }
  }

  /** Gives back where to go on when the watch ended as it should; what it had reached is kept in `reached` in any case. */
  const watch = async (from: string, reached: (version: string) => void): Promise<void> => {
    counts.watches++
    const startedMs = clock.monotonic()
    const timeoutSeconds = Math.round(shortestWatchSeconds * (1 + random()))
    const watchdog = createWatchdog(clock, stopping.signal)
    const endLate = clock.after(timeoutSeconds * 1000 + overtimeMs, watchdog.bite)
    let events = 0
    try {
      const { signal } = watchdog
      for await (const event of kube.watch(resource, { ...selection, resourceVersion: from, timeoutSeconds, signal })) {
        events++
        heard()
        watchdog.pat()
        reached(apply(event))
      }
    } finally {
      endLate()
      watchdog.stop()
    }
    if (events === 0 && clock.monotonic() - startedMs < shortestHealthyWatchMs) {
      throw new Error('the watch ended at once, without an event')
    }
  }

  /** Takes the event into the store; gives back the version that it brings us to. */
  const apply = (event: { type: string; object: unknown }): string => {
    if (event.type === 'ERROR') throw new ApiError(`WATCH ${resource.plural}`, errorStatus(event.object))
    if (event.type === 'BOOKMARK') return versionOf(event.object)
    const { object } = event
    if (!resource.accepts(object)) throw new Error(`an event ${event.type} without an object of kind ${resource.kind}`)
    if (event.type === 'DELETED') tell(store.remove(prepare(object)))
    else tell(store.put(prepare(object)))
    return object.metadata.resourceVersion
  }

  const run = async (): Promise<void> => {
    const backOff = createBackOff({ ...backOffMs, clock, random })
    let position: Position = { list: '0' }
    while (!stopping.signal.aborted) {
      try {
        if ('list' in position) position = await list(position.list)
        else {
          await watch(position.watch, (version) => {
            position = { watch: version }
          })
        }
      } catch (error) {
        if (stopping.signal.aborted) return
        counts.failures++
        position = afterFailure(position, error)
        const waitMs = Math.max(backOff.next(), error instanceof ApiError ? (error.retryAfterMs ?? 0) : 0)
        log.warn({ err: error, waitMs: Math.round(waitMs), next: position }, 'list or watch failed; trying again')
        await sleep(clock, waitMs, stopping.signal).catch(() => {})
      }
    }
  }

  const running = run()
  // Nobody may be waiting for the first list.
  firstList.promise.catch(() => {})
  return {
    store,
    onChange(handler) {
      handlers.push(handler)
      for (const object of store.list()) call(handler, { kind: 'added', object })
    },
    hasSynced: () => isSynced,
    synced: (signal) => (signal ? Promise.race([firstList.promise, aborted(signal)]) : firstList.promise),
    ageMs: () => clock.monotonic() - heardAtMs,
    statistics: () => ({ resource: resource.plural, objects: store.size, ...counts }),
    async stop() {
      stopping.abort()
      await running
      firstList.reject(new Error(`the reflector of ${resource.plural} was stopped`))
    },
  }
}

/**
 * An expired version means a list from etcd, so that we do not go back to the same old version. A server that refuses the request itself
 * is asked for a list as well. Everything else (network, 429, 5xx) says nothing about the version: watch on from it.
 */
function afterFailure(position: Position, error: unknown): Position {
  if (isExpired(error)) return { list: '' }
  if ('list' in position) {
    const isTooNew = error instanceof ApiError && error.status.code === 504
    return isTooNew ? { list: '' } : position
  }
  const isRefused = error instanceof ApiError && error.status.code < 500 && error.status.code !== 429
  return isRefused ? { list: position.watch } : position
}

/** From etcd in pages, so that the event loop gets to breathe; from the API server's cache ('0', or a version) in one. */
async function listAll<T extends KubeObject>(
  kube: KubeClient,
  resource: Resource<T>,
  selection: { namespace?: string; labelSelector?: string; fieldSelector?: string; signal: AbortSignal },
  resourceVersion: string,
  limit: number,
  prepare: (object: Persisted<T>) => Persisted<T>,
): Promise<List<T>> {
  const whole = async (options: { resourceVersion?: string } = {}): Promise<List<T>> => {
    const found = await kube.list(resource, { ...selection, ...options })
    return { ...found, items: found.items.map(prepare) }
  }
  if (resourceVersion !== '') return whole({ resourceVersion })
  const items: Persisted<T>[] = []
  let page = await kube.list(resource, { ...selection, limit })
  const take = () => items.push(...page.items.map(prepare))
  try {
    for (take(); page.continue !== undefined; take()) {
      page = await kube.list(resource, { ...selection, limit, continue: page.continue })
    }
  } catch (error) {
    // The list took longer than etcd keeps old versions: once more, in one piece.
    if (isExpired(error)) return whole()
    throw error
  }
  return { items, resourceVersion: page.resourceVersion }
}

/** Aborts its signal unless patted every `idleMs`; follows `parent`. */
function createWatchdog(clock: Clock, parent: AbortSignal) {
  const controller = new AbortController()
  const follow = () => controller.abort(parent.reason)
  const bite = () => controller.abort(new Error('the watch went silent'))
  let cancel = clock.after(idleMs, bite)
  if (parent.aborted) follow()
  parent.addEventListener('abort', follow, { once: true })
  return {
    signal: controller.signal,
    bite,
    pat() {
      cancel()
      cancel = clock.after(idleMs, bite)
    },
    stop() {
      cancel()
      parent.removeEventListener('abort', follow)
      controller.abort()
    },
  }
}

const lastApplied = 'kubectl.kubernetes.io/last-applied-configuration'

function withoutBallast<T extends KubeObject>(object: Persisted<T>): Persisted<T> {
  const { managedFields: _managed, annotations, ...metadata } = object.metadata
  if (!annotations) return { ...object, metadata }
  const { [lastApplied]: _applied, ...rest } = annotations
  return { ...object, metadata: { ...metadata, annotations: rest } }
}

function versionOf(bookmark: unknown): string {
  const metadata = isRecord(bookmark) ? bookmark['metadata'] : undefined
  const version = isRecord(metadata) ? metadata['resourceVersion'] : undefined
  if (typeof version !== 'string') throw new Error('a bookmark without a resourceVersion')
  return version
}

function errorStatus(object: unknown) {
  const { code, reason, message } = isRecord(object) ? object : {}
  return {
    code: typeof code === 'number' ? code : 500,
    reason: typeof reason === 'string' ? reason : 'Unknown',
    message: typeof message === 'string' ? message : 'an ERROR event',
  }
}

function aborted(signal: AbortSignal): Promise<never> {
  return new Promise((_resolve, reject) => {
    if (signal.aborted) reject(signal.reason)
    signal.addEventListener('abort', () => reject(signal.reason), { once: true })
  })
}
