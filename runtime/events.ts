import { randomBytes } from 'node:crypto'
import type { ObjectMeta } from '../api/object.ts'
import { ApiError, isNotFound } from './api-error.ts'
import { createBucket } from './bucket.ts'
import type { Bucket } from './bucket.ts'
import { sleep, systemClock, timestamp } from './clock.ts'
import type { Clock } from './clock.ts'
import { cutBytes } from './cut.ts'
import type { KubeClient } from './kube.ts'
import type { Logger } from './log.ts'
import { resource } from './resource.ts'

/** What an event is about. */
export interface Regarding {
  readonly apiVersion: string
  readonly kind: string
  /** Absent for a cluster-wide object; its events are kept in `default`. */
  readonly namespace?: string
  readonly name: string
  readonly uid: string
}

export interface Happening {
  readonly regarding: Regarding
  readonly type: 'Normal' | 'Warning'
  /** A CamelCase word. */
  readonly reason: string
  /** A sentence; cut at 1024 bytes. */
  readonly message: string
}

/**
 * Writes Events for `kubectl describe`: of the core group, since that is what kubectl prints with its "x3 over 2m". Recording never
 * blocks and never fails. The same (object, type, reason, message) within ten minutes is one Event whose count grows; an object gets 25 Events and then one
 * per five minutes; what comes while a thousand wait is dropped.
 */
export interface EventRecorder {
  record(happening: Happening): void
  statistics(): { readonly waiting: number; readonly dropped: number }
  /** Sends what waits, but for no longer than `limitMs`. */
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
  const suffix = options.suffix ?? (() => randomBytes(8).toString('hex'))
  const known = new Map<string, Known>()
  const buckets = new Map<string, Bucket>()
  const waiting: Happening[] = []
  const stopping = new AbortController()
  let sending: Promise<void> | undefined
  let dropped = 0

  const isTooMany = ({ uid }: Regarding) => {
    const bucket = buckets.get(uid) ?? createBucket(perSecond, burst, clock)
    remember(buckets, uid, bucket)
    return !bucket.takeIfAny()
  }

  const sendAll = async (): Promise<void> => {
    for (let next = waiting.shift(); next && !stopping.signal.aborted; next = waiting.shift()) {
      await send(next).catch((error: unknown) => {
        dropped++
        log.warn({ err: error, reason: next?.reason }, 'an event was not written')
      })
    }
    sending = undefined
  }

  const send = async (happening: Happening): Promise<void> => {
    for (let attempt = 1; ; attempt++) {
      try {
        return await write(happening)
      } catch (error) {
        const isRefused = error instanceof ApiError && error.status.code < 500 && error.status.code !== 429
        if (isRefused || attempt >= tries || stopping.signal.aborted) throw error
        await sleep(clock, retryMs * attempt, stopping.signal)
      }
    }
  }

  const write = async (happening: Happening): Promise<void> => {
    const { uid } = happening.regarding
    const key = JSON.stringify([uid, happening.type, happening.reason, happening.message])
    const now = timestamp(clock)
    const before = known.get(key)
    if (before && clock.monotonic() - before.atMs < sameWithinMs && (await grow(happening, before, now))) {
      remember(known, key, { ...before, count: before.count + 1, atMs: clock.monotonic() })
      return
    }
    // What is cut may not end as no name may.
    const name = `${happening.regarding.name.slice(0, 230).replace(/[-.]+$/, '')}.${suffix()}`
    await kube.create(events, newEvent(happening, name, now), { signal: stopping.signal })
    remember(known, key, { name, count: 1, firstTimestamp: now, atMs: clock.monotonic() })
  }

  /** False if the Event is gone: they live for an hour. */
  const grow = async ({ regarding }: Happening, { name, count }: Known, now: string): Promise<boolean> => {
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

  const newEvent = ({ regarding, type, reason, message }: Happening, name: string, now: string): Event => ({
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
    record(happening) {
      if (stopping.signal.aborted || waiting.length >= mostWaiting || isTooMany(happening.regarding)) {
        dropped++
        return
      }
      // Cut before it is remembered: a message may be as long as a spec.
      waiting.push({ ...happening, message: cutBytes(happening.message, longestMessageBytes) })
      sending ??= sendAll()
    },
    statistics: () => ({ waiting: waiting.length, dropped }),
    async stop(limitMs = 2000) {
      const cancel = clock.after(limitMs, () => stopping.abort(new Error('no time left to write events')))
      await sending
      cancel()
      stopping.abort(new Error('the event recorder was stopped'))
    },
  }
}

/** Puts it last, and forgets the oldest over the limit. */
function remember<V>(map: Map<string, V>, key: string, value: V): void {
  map.delete(key)
  map.set(key, value)
  for (const oldest of map.keys()) {
    if (map.size <= mostRemembered) return
    map.delete(oldest)
  }
}
