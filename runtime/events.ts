import { randomBytes } from 'node:crypto'
import { LRUCache } from 'lru-cache'
import type { ObjectMeta } from '../api/object.ts'
import { ApiError, ApiUnreachable, isAlreadyExists, isNotFound } from './api-error.ts'
import { createBucket } from './bucket.ts'
import type { Bucket } from './bucket.ts'
import { systemClock, timestamp } from './clock.ts'
import type { Clock } from './clock.ts'
import { statusMessage } from './condition.ts'
import { createFairLimit } from './fair-limit.ts'
import type { Held } from './fair-limit.ts'
import { createFairQueue } from './fair-queue.ts'
import type { KubeClient } from './kube.ts'
import { createLimitedLog } from './limited-log.ts'
import type { Logger } from './log.ts'
import { resource } from './resource.ts'
import { createPacedPlaces } from './pace.ts'
import { createShares } from './shares.ts'

/** The object of an event. */
interface Regarding {
  readonly apiVersion: string
  readonly kind: string
  /** Absent for a cluster-scoped object; its events are stored in `default`. */
  readonly namespace?: string
  readonly name: string
  readonly uid: string
}

export interface EventContent {
  readonly regarding: Regarding
  readonly type: 'Normal' | 'Warning'
  /** A CamelCase word. */
  readonly reason: string
  /** A sentence; shortened to 1024 bytes, and with characters that can be shown. */
  readonly message: string
}

/**
 * Writes Events for `kubectl describe`: of the core group, since kubectl prints those with their count ("x3 over 2m").
 * Recording never blocks and never fails. Events with the same object, type, reason and message within ten minutes
 * become one Event whose count grows. An object gets 25 Events and then one per five minutes. Four are written at once,
 * two of a namespace, those of an object in order. A thousand events wait, also to be tried again, and namespaces take
 * turns; beyond that, the namespace that has the most waiting loses its last one.
 */
export interface EventRecorder {
  record(content: EventContent): void
  /** `dropped`: events since the start that were too many of their object or namespace, or could not be written. */
  statistics(): { readonly waiting: number; readonly dropped: number }
  /** Sends the waiting events, for at most `limitMs`. */
  stop(limitMs?: number): Promise<void>
}

interface Event {
  readonly apiVersion?: string
  readonly kind?: string
  readonly metadata: ObjectMeta
  readonly count?: number
  readonly [key: string]: unknown
}

export const events = resource<Event>({ group: '', version: 'v1', plural: 'events', kind: 'Event', namespaced: true })

/** The limits of client-go's spam filter and aggregator, and of the API's validation of `message`. */
const burst = 25
const perSecond = 1 / 300
const sameWithinMs = 600_000
const longestMessageBytes = 1024
const mostRemembered = 4096
const mostWaiting = 1000
/**
 * A write takes milliseconds, so these are hundreds of events a second. One whose writes are slow, because of an
 * admission webhook, delays its own namespace only: those that are slow leave one write to the others.
 */
const mostAtOnce = { all: 4, perNamespace: 2 }
const slowMs = 500
/** Over half a minute: an API server that restarts, or whose etcd does, responds with errors for some seconds. */
const tries = 6
const firstRetryMs = 1000
const longestRetryMs = 16_000
/**
 * A connection that fails sooner says nothing about the event, unless others have been written meanwhile: the API server
 * cannot be reached.
 */
const unreachableMs = 5000

/** An event until it is written or dropped. */
interface Entry {
  readonly content: EventContent
  /** Of the Event, so that a write that has taken effect without a response is not repeated under another name. */
  name: string | undefined
  tries: number
  /** Those of its tries that count. */
  failures: number
  /** How many events had been written when it failed the last time. */
  written: number
  place: Held | undefined
  /** Removes it from where it waits. */
  leave: () => void
}

interface Known {
  name: string
  count: number
  firstTimestamp: string
  atMs: number
}

export function createEventRecorder(options: {
  readonly kube: KubeClient
  readonly log: Logger
  /** e.g. `virtset-controller`. */
  readonly component: string
  /** The pod's or the node's name. */
  readonly instance: string
  readonly clock?: Clock
  /** Makes names unique. */
  readonly suffix?: () => string
}): EventRecorder {
  const { kube, log, component, instance, clock = systemClock } = options
  const limitedLog = createLimitedLog(log, clock)
  const suffix = options.suffix ?? (() => randomBytes(8).toString('hex'))
  const known = new LRUCache<string, Known>({ max: mostRemembered })
  const buckets = new LRUCache<string, Bucket>({ max: mostRemembered })
  const queue = createFairQueue<Entry>()
  const shares = createShares(mostAtOnce.perNamespace)
  const writes = createPacedPlaces(mostAtOnce, { slowMs, clock, wake: () => pump() })
  const places = createFairLimit(mostWaiting)
  /** In the queue, in a line, or until they are tried again. */
  const waiting = new Set<Entry>()
  /**
   * By the uid of an object, the events behind the one that is in the queue, is being written or waits to be tried
   * again: two events of an object at once could be the same one, whose count grows.
   */
  const lines = new Map<string, Set<Entry>>()
  const stopping = new AbortController()
  let idle: PromiseWithResolvers<void> | undefined
  let writing = 0
  let written = 0
  let dropped = 0

  const isTooMany = ({ uid }: Regarding) => {
    const bucket = buckets.get(uid) ?? createBucket(perSecond, burst, clock)
    buckets.set(uid, bucket)
    return !bucket.takeIfAny()
  }

  const takePlace = (entry: Entry): void => {
    waiting.add(entry)
    entry.place = places.hold(namespaceOf(entry.content), () => drop(entry))
    entry.place.grow(1)
  }

  const leavePlace = (entry: Entry): void => {
    waiting.delete(entry)
    entry.place?.release()
  }

  const drop = (entry: Entry): void => {
    leavePlace(entry)
    entry.leave()
    dropped++
  }

  const enqueue = (entry: Entry): void => {
    const remove = queue.add(namespaceOf(entry.content), entry)
    entry.leave = () => {
      remove()
      advance(entry)
    }
  }

  const lineUp = (entry: Entry): void => {
    const { uid } = entry.content.regarding
    const line = lines.get(uid)
    if (line === undefined) {
      lines.set(uid, new Set())
      return enqueue(entry)
    }
    line.add(entry)
    entry.leave = () => void line.delete(entry)
  }

  /** The next event of the object comes into the queue. */
  const advance = ({ content }: Entry): void => {
    const { uid } = content.regarding
    const line = lines.get(uid)
    const [next] = line ?? []
    if (next === undefined) return void lines.delete(uid)
    line?.delete(next)
    enqueue(next)
  }

  const pump = (): void => {
    while (!stopping.signal.aborted && !writes.isFull()) {
      let leaveShare: (() => void) | undefined
      let end: (() => void) | undefined
      const entry = queue.take((namespace) => {
        leaveShare = shares.take(namespace)
        end = leaveShare && writes.take(namespace)
        if (end === undefined) leaveShare?.()
        return end !== undefined
      })
      if (entry === undefined) break
      leavePlace(entry)
      writing++
      const leave = () => leaveShare?.()
      void attempt(entry).then((isSettled) => {
        end?.()
        writing--
        if (isSettled) {
          leave()
          advance(entry)
        } else retryLater(entry, leave)
        pump()
      })
    }
    if (writing === 0 && waiting.size === 0) idle?.resolve()
  }

  /** False if it is to be tried again. */
  const attempt = async (entry: Entry): Promise<boolean> => {
    const { content } = entry
    const startedMs = clock.monotonic()
    entry.tries++
    try {
      await write(entry)
      written++
      return true
    } catch (error) {
      const isFast = clock.monotonic() - startedMs < unreachableMs
      const areOthersWritten = written > entry.written
      entry.written = written
      if (error instanceof ApiUnreachable && isFast && !areOthersWritten && !stopping.signal.aborted) {
        limitedLog('', { err: error }, 'events wait, because the API server cannot be reached', 'warn')
        return false
      }
      entry.failures++
      const isRefused = error instanceof ApiError && error.status.code < 500 && error.status.code !== 429
      if (!isRefused && entry.failures < tries && !stopping.signal.aborted) return false
      dropped++
      limitedLog(namespaceOf(content), { err: error, reason: content.reason }, 'could not write an event', 'warn')
      return true
    }
  }

  /** Until then, the share of the namespace stays taken: its other events would fail as well. */
  const retryLater = (entry: Entry, leaveShare: () => void): void => {
    const waitMs = Math.min(longestRetryMs, firstRetryMs * 2 ** (entry.tries - 1))
    const cancel = clock.after(waitMs, () => {
      leaveShare()
      enqueue(entry)
      pump()
    })
    entry.leave = () => {
      cancel()
      leaveShare()
      advance(entry)
    }
    takePlace(entry)
  }

  const write = async (entry: Entry): Promise<void> => {
    const { content } = entry
    const { uid } = content.regarding
    const key = JSON.stringify([uid, content.type, content.reason, content.message])
    const now = timestamp(clock)
    const before = known.get(key)
    if (before && clock.monotonic() - before.atMs < sameWithinMs && (await grow(content, before, now))) {
      known.set(key, { ...before, count: before.count + 1, atMs: clock.monotonic() })
      return
    }
    // A name must not end with a dot or a hyphen.
    const name = (entry.name ??= `${content.regarding.name.slice(0, 230).replace(/[-.]+$/, '')}.${suffix()}`)
    try {
      await kube.createUnread(events, newEvent(content, name, now), { signal: stopping.signal })
    } catch (error) {
      if (entry.tries === 1 || !isAlreadyExists(error)) throw error
    }
    known.set(key, { name, count: 1, firstTimestamp: now, atMs: clock.monotonic() })
  }

  /** False if the Event no longer exists: Events live for an hour. */
  const grow = async ({ regarding }: EventContent, { name, count }: Known, now: string): Promise<boolean> => {
    try {
      const body = { count: count + 1, lastTimestamp: now }
      const ref = { namespace: namespaceOf({ regarding }), name }
      await kube.patch(events, ref, { type: 'merge', body }, { signal: stopping.signal })
      return true
    } catch (error) {
      if (isNotFound(error)) return false
      throw error
    }
  }

  const newEvent = ({ regarding, type, reason, message }: EventContent, name: string, now: string): Event => ({
    metadata: { namespace: namespaceOf({ regarding }), name },
    involvedObject: regarding,
    type,
    reason,
    message,
    source: { component, host: instance },
    reportingComponent: component,
    reportingInstance: instance,
    count: 1,
    firstTimestamp: now,
    lastTimestamp: now,
  })

  return {
    record(content) {
      if (stopping.signal.aborted || isTooMany(content.regarding)) {
        dropped++
        return
      }
      // Shortened before it is remembered: a message can be as long as a spec.
      const shortened = { ...content, message: statusMessage(content.message, longestMessageBytes) }
      const entry: Entry = {
        content: shortened,
        name: undefined,
        tries: 0,
        failures: 0,
        written,
        place: undefined,
        leave: () => {},
      }
      lineUp(entry)
      takePlace(entry)
      pump()
    },
    statistics: () => ({ waiting: waiting.size, dropped }),
    async stop(limitMs = 2000) {
      const cancel = clock.after(limitMs, () => {
        stopping.abort(new Error('no time left to write events'))
        for (const entry of waiting) drop(entry)
        pump()
      })
      idle ??= Promise.withResolvers()
      pump()
      await idle.promise
      cancel()
      stopping.abort(new Error('the event recorder was stopped'))
    },
  }
}

/** Where it is written: that of its object, or `default` for a cluster-scoped one. */
const namespaceOf = ({ regarding: { namespace = 'default' } }: Pick<EventContent, 'regarding'>): string => namespace
