import { randomBytes } from 'node:crypto'
import { LRUCache } from 'lru-cache'
import type { ObjectMeta } from '../api/object.ts'
import { ApiError, isNotFound } from './api-error.ts'
import { createBucket } from './bucket.ts'
import type { Bucket } from './bucket.ts'
import { sleep, systemClock, timestamp } from './clock.ts'
import type { Clock } from './clock.ts'
import { shortenToBytes } from '../api/shorten.ts'
import { createFairLimit } from './fair-limit.ts'
import { createFairQueue } from './fair-queue.ts'
import type { KubeClient } from './kube.ts'
import { createLimitedLog } from './limited-log.ts'
import type { Logger } from './log.ts'
import { resource } from './resource.ts'
import { shownText } from './shown-text.ts'

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
 * those of an object in order. A thousand events wait, and namespaces take turns; beyond that, the namespace that has
 * the most waiting loses its last one.
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
/** A write takes milliseconds, so this is hundreds of events a second. */
const mostAtOnce = 4
const tries = 3
const retryMs = 1000

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
  const waiting = createFairQueue<() => EventContent>()
  const places = createFairLimit(mostWaiting)
  const stopping = new AbortController()
  let senders = 0
  const sending = new Set<Promise<void>>()
  /** The last event of each object that is being written. */
  const lastOf = new Map<string, Promise<void>>()
  let dropped = 0

  const isTooMany = ({ uid }: Regarding) => {
    const bucket = buckets.get(uid) ?? createBucket(perSecond, burst, clock)
    buckets.set(uid, bucket)
    return !bucket.takeIfAny()
  }

  const wait = (content: EventContent): void => {
    const { namespace = '' } = content.regarding
    const remove = waiting.add(namespace, () => {
      place.release()
      return content
    })
    const place = places.hold(namespace, () => {
      remove()
      dropped++
    })
    place.grow(1)
  }

  const sendAll = async (): Promise<void> => {
    for (let next = waiting.take(); next && !stopping.signal.aborted; next = waiting.take()) await sendInOrder(next())
    // In the same turn as the last look at the queue: an event that is added later starts another sender.
    senders--
  }

  /** Two events of an object at once could be the same one, whose count grows. */
  const sendInOrder = async (content: EventContent): Promise<void> => {
    const { uid } = content.regarding
    const sent = (lastOf.get(uid) ?? Promise.resolve()).then(() => sendOrDrop(content))
    lastOf.set(uid, sent)
    await sent
    if (lastOf.get(uid) === sent) lastOf.delete(uid)
  }

  const sendOrDrop = (content: EventContent): Promise<void> =>
    send(content).catch((error: unknown) => {
      dropped++
      const { namespace = '' } = content.regarding
      limitedLog(namespace, { err: error, reason: content.reason }, 'could not write an event', 'warn')
    })

  const send = async (content: EventContent): Promise<void> => {
    for (let attempt = 1; ; attempt++) {
      try {
        return await write(content)
      } catch (error) {
        const isRefused = error instanceof ApiError && error.status.code < 500 && error.status.code !== 429
        if (isRefused || attempt >= tries || stopping.signal.aborted) throw error
        await sleep(clock, retryMs * attempt, stopping.signal)
      }
    }
  }

  const write = async (content: EventContent): Promise<void> => {
    const { uid } = content.regarding
    const key = JSON.stringify([uid, content.type, content.reason, content.message])
    const now = timestamp(clock)
    const before = known.get(key)
    if (before && clock.monotonic() - before.atMs < sameWithinMs && (await grow(content, before, now))) {
      known.set(key, { ...before, count: before.count + 1, atMs: clock.monotonic() })
      return
    }
    // A name must not end with a dot or a hyphen.
    const name = `${content.regarding.name.slice(0, 230).replace(/[-.]+$/, '')}.${suffix()}`
    await kube.createUnread(events, newEvent(content, name, now), { signal: stopping.signal })
    known.set(key, { name, count: 1, firstTimestamp: now, atMs: clock.monotonic() })
  }

  /** False if the Event no longer exists: Events live for an hour. */
  const grow = async ({ regarding }: EventContent, { name, count }: Known, now: string): Promise<boolean> => {
    try {
      const body = { count: count + 1, lastTimestamp: now }
      const ref = { namespace: regarding.namespace ?? 'default', name }
      await kube.patch(events, ref, { type: 'merge', body }, { signal: stopping.signal })
      return true
    } catch (error) {
      if (isNotFound(error)) return false
      throw error
    }
  }

  const newEvent = ({ regarding, type, reason, message }: EventContent, name: string, now: string): Event => ({
    metadata: { namespace: regarding.namespace ?? 'default', name },
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
      const message = shownText(content.message.slice(0, longestMessageBytes + 1))
      wait({ ...content, message: shortenToBytes(message, longestMessageBytes) })
      if (senders === mostAtOnce) return
      senders++
      const sender = sendAll()
      sending.add(sender)
      void sender.then(() => sending.delete(sender))
    },
    statistics: () => ({ waiting: waiting.size(), dropped }),
    async stop(limitMs = 2000) {
      const cancel = clock.after(limitMs, () => stopping.abort(new Error('no time left to write events')))
      await Promise.all(sending)
      cancel()
      stopping.abort(new Error('the event recorder was stopped'))
    },
  }
}
