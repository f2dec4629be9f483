import { isRecord } from '../api/schema.ts'
import { ApiError, isUnavailable, isExpired } from './api-error.ts'
import { createBackOff } from './back-off.ts'
import { createBucket, type Rate } from './bucket.ts'
import { sleep, systemClock } from './clock.ts'
import type { Clock } from './clock.ts'
import type { KubeClient } from './kube.ts'
import type { Logger } from './log.ts'
import { pageSize, readEach } from './pages.ts'
import { isOlderVersion } from './resource.ts'
import type { KubeObject, Persisted, Resource } from './resource.ts'
import { pick } from './slim.ts'
import { createStore } from './store.ts'
import type { Change, Indexers, Store } from './store.ts'

interface ReflectorOptions<T extends KubeObject, Index extends string> {
  readonly kube: KubeClient
  readonly resource: Resource<T>
  readonly log: Logger
  /** Absent: all namespaces. */
  readonly namespace?: string
  readonly labelSelector?: string
  readonly fieldSelector?: string
  /** Only the object of this name. */
  readonly name?: string
  readonly indexers?: Indexers<T, Index>
  /**
   * What the cache stores of an object (`slim.ts`); absent: everything but managedFields and kubectl's last-applied
   * annotation, which no cache stores.
   */
  readonly slim?: (object: Persisted<T>) => Persisted<T>
  /**
   * How many events of a watch are read; absent: as many as come. After more of them, the watch ends, and all objects are
   * listed 10 s later: a list has each object once, however often it changed, so others are at most that late.
   */
  readonly eventRate?: Rate
  readonly clock?: Clock
  readonly random?: () => number
}

/**
 * Keeps a store equal to the API server's objects: lists, then watches, until it is stopped.
 *
 * Lists come in pages, which are parsed object by object. Each object is slimmed, and at first stored and delivered,
 * before the next is parsed. That bounds the memory for raw objects and the time that the event loop is blocked,
 * whatever users store.
 *
 * Promised: every change is delivered once and in order, deletions included, even those that happened while no watch
 * was open. Neither a response of the API server nor a handler can end it; only `stop` does. An API server that was
 * unavailable is contacted again within 5 s. When etcd was restored from a backup, so that versions went back,
 * everything is listed again. Not promised: that the store is up to date. `ageMs` is the time since the API server was
 * last heard of.
 */
export interface Reflector<T extends KubeObject, Index extends string = never> {
  readonly store: Store<T, Index>
  /** Calls `handler` for each object that is stored already, and then for each change. Its errors are logged. */
  onChange(handler: (change: Change<T>) => void | Promise<void>): void
  /**
   * Calls `handler` when a watch has expired and everything was listed again: no change tells of an object that was
   * created and deleted in between. Not with an `eventRate`, which leaves such gaps all the time.
   */
  onGap(handler: () => void): void
  /**
   * Resolves as `write` does. After a version below those of the watch, it checks whether the API server's versions
   * went back.
   */
  observeWrite(write: Promise<Persisted<T>>): Promise<Persisted<T>>
  /** Whether the store has been filled once. */
  hasSynced(): boolean
  synced(signal?: AbortSignal): Promise<void>
  /** Milliseconds since the last response or event of the API server for this kind; Infinity before the first. */
  ageMs(): number
  statistics(): ReflectorStatistics
  /** Resolves when no request and no timer is left. */
  stop(): Promise<void>
}

export interface ReflectorStatistics {
  readonly resource: string
  readonly objects: number
  readonly lists: number
  readonly watches: number
  readonly failures: number
}

/** As client-go, for refusals. Starts over after two healthy minutes. */
const refusedBackOffMs = { firstMs: 800, longestMs: 30_000, healthyMs: 120_000 }
/** Without a response, or with a 5xx, a retry can succeed at any time: with jitter, the longest wait is 5 s. */
const unavailableBackOffMs = { ...refusedBackOffMs, longestMs: 2500 }
/** A watch that expires sooner than this after a list does not list at once again. */
const shortestListIntervalMs = 10_000
/** How long no events are read after too many of them. */
const catchUpMs = 10_000
/** As client-go: a watch lasts 5 to 10 minutes, so that the watches of many clients do not end together. */
const shortestWatchSeconds = 300
/** Bookmarks come each minute; three missed mean a dead connection. A server without bookmarks costs one more watch. */
const idleMs = 200_000
/**
 * After this silence the version of the API server is read: a watch from a version that was rolled back stays silent.
 */
const quietMs = 75_000
/** How much longer than requested a watch may last before it is ended. */
const overtimeMs = 30_000
/** A watch that ends sooner than this without an event counts as a failure, or it would be repeated without pause. */
const shortestHealthyWatchMs = 1000

/** Where to continue: a version to watch from, or a list to be made first. */
type Position = { readonly watch: string } | 'list'

/**
 * The API server's versions went back: etcd was restored from a backup. A watch from the old version would stay silent.
 */
class RolledBack extends Error {
  override readonly name = 'RolledBack'
  constructor(from: string, to: string) {
    super(`the API server's version went back from ${from} to ${to}: etcd was restored from a backup`)
  }
}

export function startReflector<T extends KubeObject, Index extends string = never>(
  options: ReflectorOptions<T, Index>,
): Reflector<T, Index> {
  const { kube, resource, name, eventRate, clock = systemClock, random = Math.random } = options
  const log = options.log.child({ resource: resource.plural })
  const selection = {
    ...pick(options, 'namespace', 'labelSelector', 'fieldSelector'),
    ...(name === undefined ? {} : { fieldSelector: `metadata.name=${name}` }),
  }
  const store = createStore<T, Index>(options.indexers)
  const handlers: ((change: Change<T>) => void | Promise<void>)[] = []
  const gapHandlers: (() => void)[] = []
  const allowance = eventRate && createBucket(eventRate.perSecond, eventRate.burst, clock)
  const stopping = new AbortController()
  const firstList = Promise.withResolvers<void>()
  const counts = { lists: 0, watches: 0, failures: 0 }
  let isSynced = false
  let heardAtMs = -Infinity
  let listedAtMs = -Infinity
  /** Halved after a page that the API server did not send in time: large objects can take it a second each. */
  let limit = pageSize
  /** The newest version that the API server has shown. */
  let reached: string | undefined
  /** Ends the open watch with an error. */
  let endWatch: (reason: Error) => void = () => {}

  /** An error of a handler does not end the list or the watch: another would meet it again. */
  const call = (what: 'change' | 'gap', handle: () => void | Promise<void>) => {
    const failed = (error: unknown) => log.error({ err: error }, `a ${what} handler failed`)
    try {
      Promise.resolve(handle()).catch(failed)
    } catch (error) {
      failed(error)
    }
  }

  const deliver = (changes: readonly Change<T>[]) => {
    for (const change of changes) for (const handler of handlers) call('change', () => handler(change))
  }

  const heard = () => {
    heardAtMs = clock.monotonic()
  }

  const prepare = (object: Persisted<T>): Persisted<T> => {
    const bare = withoutBallast(object)
    return options.slim ? options.slim(bare) : bare
  }

  /**
   * The first list fills the store object by object. Later the store goes from one state of the API server to another
   * in one step: meanwhile, an object could be there beside the one that replaced it.
   */
  const take = (object: Persisted<T>): Persisted<T> => {
    const item = prepare(object)
    if (!isSynced) deliver(store.put(item))
    return item
  }

  /** @throws ApiError Expired if reading took longer than etcd stores old versions; the next list starts over */
  const list = async (): Promise<Position> => {
    counts.lists++
    const items: Persisted<T>[] = []
    const scope = { ...selection, limit, signal: stopping.signal }
    const version = await readEach(kube, resource, scope, (object) => items.push(take(object)))
    limit = pageSize
    heard()
    listedAtMs = clock.monotonic()
    const before = reached
    reached = version
    deliver(store.replace(items))
    if (isSynced && allowance === undefined) for (const handler of gapHandlers) call('gap', handler)
    isSynced = true
    firstList.resolve()
    if (before !== undefined && isOlderVersion(reached, before)) {
      log.error(
        { from: before, to: reached },
        'versions went back: etcd was restored from a backup; listed everything again',
      )
    }
    return { watch: version }
  }

  /**
   * @throws RolledBack. The version is of etcd, not of a cache. Objects of any name are listed without a selector,
   *   which could make etcd read all of them.
   */
  const verify = async (version: string): Promise<void> => {
    const scope = name === undefined ? pick(options, 'namespace') : selection
    const { resourceVersion } = await kube.list(resource, { ...scope, limit: 1, signal: stopping.signal })
    if (isOlderVersion(resourceVersion, version)) throw new RolledBack(version, resourceVersion)
  }

  const verifyWatch = (version: string): Promise<void> =>
    verify(version).catch((error: unknown) => {
      if (error instanceof RolledBack) endWatch(error)
      else log.debug({ err: error }, 'could not read the version of the API server')
    })

  /**
   * Resolves when the watch ended as requested, with true if there were too many events. `onReached` is called with each
   * version, whatever the end.
   */
  const watch = async (from: string, onReached: (version: string) => void): Promise<boolean> => {
    counts.watches++
    const startedMs = clock.monotonic()
    const timeoutSeconds = Math.round(shortestWatchSeconds * (1 + random()))
    const watchdog = createWatchdog(clock, stopping.signal)
    const endLate = clock.after(timeoutSeconds * 1000 + overtimeMs, watchdog.bite)
    let version = from
    let events = 0
    let cancelCheck = () => {}
    const checkWhenQuiet = () => {
      cancelCheck()
      cancelCheck = clock.after(quietMs, () => {
        checkWhenQuiet()
        void verifyWatch(version)
      })
    }
    endWatch = (reason) => watchdog.end(reason)
    checkWhenQuiet()
    try {
      const { signal } = watchdog
      for await (const event of kube.watch(resource, { ...selection, resourceVersion: from, timeoutSeconds, signal })) {
        events++
        heard()
        watchdog.pat()
        checkWhenQuiet()
        const next = apply(event)
        if (isOlderVersion(next, version)) throw new RolledBack(version, next)
        version = next
        onReached(version)
        if (allowance?.takeIfAny() === false) return true
      }
    } catch (error) {
      // undici's error does not have the reason of the abort.
      throw watchdog.reason() ?? error
    } finally {
      endWatch = () => {}
      cancelCheck()
      endLate()
      watchdog.stop()
    }
    if (events === 0 && clock.monotonic() - startedMs < shortestHealthyWatchMs) {
      throw new Error('the watch ended at once, without an event')
    }
    return false
  }

  /** Applies the event to the store; returns its version. */
  const apply = (event: { type: string; object: unknown }): string => {
    if (event.type === 'ERROR') throw new ApiError(`WATCH ${resource.plural}`, errorStatus(event.object))
    if (event.type === 'BOOKMARK') return versionOf(event.object)
    const { object } = event
    if (!resource.accepts(object)) throw new Error(`an event ${event.type} has no object of kind ${resource.kind}`)
    if (event.type === 'DELETED') deliver(store.remove(prepare(object)))
    else deliver(store.put(prepare(object)))
    return object.metadata.resourceVersion
  }

  const run = async (): Promise<void> => {
    const unavailable = createBackOff({ ...unavailableBackOffMs, clock, random })
    const refused = createBackOff({ ...refusedBackOffMs, clock, random })
    const waitAfter = (position: Position, error: unknown): number => {
      const isRecent = clock.monotonic() - listedAtMs < shortestListIntervalMs
      if (position !== 'list' && isStale(error) && !isRecent) return 0
      const waitMs = (isUnavailable(error) ? unavailable : refused).next()
      return Math.max(waitMs, error instanceof ApiError ? (error.retryAfterMs ?? 0) : 0)
    }
    let position: Position = 'list'
    let hasFailed = false
    while (!stopping.signal.aborted) {
      try {
        if (position === 'list') position = await list()
        else {
          // etcd may have been restored while the API server was unavailable.
          if (hasFailed) await verify(position.watch)
          hasFailed = false
          const hasTooMany = await watch(position.watch, (version) => {
            reached = version
            position = { watch: version }
          })
          if (hasTooMany) {
            position = 'list'
            await sleep(clock, catchUpMs, stopping.signal)
          }
        }
        hasFailed = false
      } catch (error) {
        if (stopping.signal.aborted) return
        counts.failures++
        hasFailed = true
        if (position === 'list' && isUnavailable(error)) limit = Math.max(1, Math.floor(limit / 2))
        const waitMs = waitAfter(position, error)
        position = afterFailure(position, error)
        log.warn({ err: error, waitMs: Math.round(waitMs), next: position }, 'list or watch failed; retrying')
        if (waitMs > 0) await sleep(clock, waitMs, stopping.signal).catch(() => {})
      }
    }
  }

  const running = run()
  // It rejects even when nothing waits for the first list.
  firstList.promise.catch(() => {})
  return {
    store,
    onChange(handler) {
      handlers.push(handler)
      for (const object of store.list()) call('change', () => handler({ kind: 'added', object }))
    },
    onGap: (handler) => void gapHandlers.push(handler),
    async observeWrite(write) {
      const before = reached
      const written = await write
      // An update that changes nothing returns the old version, so this is only a suspicion.
      if (before !== undefined && isOlderVersion(written.metadata.resourceVersion, before)) void verifyWatch(before)
      return written
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

const isStale = (error: unknown): boolean => isExpired(error) || error instanceof RolledBack

/**
 * An expired version requires a list, and so does a server that refuses the request itself. All other errors (network,
 * 429, 5xx) prove nothing about the version: the watch continues from it.
 */
function afterFailure(position: Position, error: unknown): Position {
  const isRefused = error instanceof ApiError && error.status.code < 500 && error.status.code !== 429
  return isStale(error) || isRefused ? 'list' : position
}

/** Aborts its signal unless patted every `idleMs`; follows `parent`. */
function createWatchdog(clock: Clock, parent: AbortSignal) {
  const controller = new AbortController()
  const follow = () => controller.abort(parent.reason)
  const bite = () => controller.abort(new Error('the watch went silent'))
  let ended: Error | undefined
  let cancel = clock.after(idleMs, bite)
  if (parent.aborted) follow()
  parent.addEventListener('abort', follow, { once: true })
  return {
    signal: controller.signal,
    bite,
    end(reason: Error) {
      ended = reason
      controller.abort(reason)
    },
    reason: () => ended,
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
  if (typeof version !== 'string') throw new Error('a bookmark has no resourceVersion')
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
