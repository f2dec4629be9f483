import { Counter, Gauge, Registry, collectDefaultMetrics } from 'prom-client'
import type { EventRecorder } from './events.ts'
import type { ReflectorStatistics } from './reflector.ts'

/** A registry with the metrics of the process: CPU, memory, event-loop delay, garbage collection. */
export function createMetrics(): Registry {
  const registry = new Registry()
  collectDefaultMetrics({ register: registry })
  return registry
}

interface Observed {
  ageMs(): number
  statistics(): ReflectorStatistics
}

/** `virtset_cache_*`, by resource, collected when Prometheus scrapes. */
export function observeReflectors(registry: Registry, reflectors: readonly Observed[]): void {
  const gauge = (name: string, help: string, read: (reflector: Observed) => number) =>
    new Gauge({
      name,
      help,
      labelNames: ['resource'],
      registers: [registry],
      collect() {
        for (const reflector of reflectors) this.set({ resource: reflector.statistics().resource }, read(reflector))
      },
    })
  gauge(
    'virtset_cache_age_seconds',
    'Seconds since the last response or event of the API server for this resource',
    (reflector) => reflector.ageMs() / 1000,
  )
  gauge('virtset_cache_objects', 'Objects in the cache', (reflector) => reflector.statistics().objects)
  gauge(
    'virtset_cache_lists',
    'Lists requested from the API server since the start',
    (reflector) => reflector.statistics().lists,
  )
  gauge('virtset_cache_watches', 'Watches opened since the start', (reflector) => reflector.statistics().watches)
  gauge(
    'virtset_cache_failures',
    'Lists and watches that failed since the start',
    (reflector) => reflector.statistics().failures,
  )
}

/**
 * The recorder, with `virtset_events_total`: starts, stops and failures are events. Dropped events are counted there
 * too, and once more by `virtset_events_dropped_total`.
 */
export function countEvents(registry: Registry, recorder: EventRecorder): EventRecorder {
  const counter = new Counter({
    name: 'virtset_events_total',
    help: 'Events recorded, by kind of object, type and reason',
    labelNames: ['kind', 'type', 'reason'],
    registers: [registry],
  })
  new Counter({
    name: 'virtset_events_dropped_total',
    help: 'Events that were too many of their object or namespace, or could not be written',
    registers: [registry],
    collect() {
      this.reset()
      this.inc(recorder.statistics().dropped)
    },
  })
  return {
    ...recorder,
    record(content) {
      const { type, reason, regarding } = content
      counter.inc({ kind: regarding.kind, type, reason })
      recorder.record(content)
    },
  }
}
