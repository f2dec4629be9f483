import type { ObjectMeta } from '../api/object.ts'
import { identity, resource } from '../runtime/resource.ts'

/** The part of an Event about a pod that is read. */
export interface PodEvent {
  readonly metadata: ObjectMeta
  readonly reason?: string
  readonly message?: string
  /** When it occurred last. Absent if it was reported as a series. */
  readonly lastTimestamp?: string | null
}

export const podEvents = resource<PodEvent>({
  group: '',
  version: 'v1',
  plural: 'events',
  kind: 'Event',
  namespaced: true,
  read: {
    metadata: { ...identity, creationTimestamp: true },
    reason: true,
    message: true,
    lastTimestamp: true,
  },
})

/**
 * The events with one of these reasons, the newest last. None if the pod has made progress since, which any other event
 * shows.
 * @param neutral reasons of events that are no progress
 */
export function unresolved(
  events: readonly PodEvent[],
  reasons: readonly string[],
  neutral: readonly string[] = [],
): readonly PodEvent[] {
  const telling = events.filter(({ reason = '' }) => !neutral.includes(reason))
  const latest = telling.reduce((last, event) => (timeOf(event) > last ? timeOf(event) : last), '')
  const failed = telling.filter(({ reason = '' }) => reasons.includes(reason)).toSorted(byTime)
  return timeOf(failed.at(-1)) < latest ? [] : failed
}

/** In UTC and in whole seconds, so that times compare as texts. */
const timeOf = (event: PodEvent | undefined): string => event?.lastTimestamp ?? event?.metadata.creationTimestamp ?? ''

const byTime = (a: PodEvent, b: PodEvent): number => (timeOf(a) < timeOf(b) ? -1 : timeOf(a) > timeOf(b) ? 1 : 0)
