import { describe, expect, it } from 'vitest'
import type { EventContent } from './events.ts'
import { countEvents, createMetrics, observeReflectors } from './metrics.ts'

describe('metrics', () => {
  it('has the metrics of the process and of each cache', async () => {
    const registry = createMetrics()
    const statistics = () => ({ resource: 'pods', objects: 3, lists: 1, watches: 2, failures: 4 })
    observeReflectors(registry, [{ ageMs: () => 1500, statistics }])
    const text = await registry.metrics()
    expect(text).toContain('process_resident_memory_bytes ')
    expect(text).toContain('nodejs_eventloop_lag_p99_seconds ')
    expect(text.split('\n').filter((line) => line.startsWith('virtset_'))).toEqual([
      'virtset_cache_age_seconds{resource="pods"} 1.5',
      'virtset_cache_objects{resource="pods"} 3',
      'virtset_cache_lists{resource="pods"} 1',
      'virtset_cache_watches{resource="pods"} 2',
      'virtset_cache_failures{resource="pods"} 4',
    ])
  })

  it('counts events by kind, type and reason, and passes them on', async () => {
    const registry = createMetrics()
    const handedOn: EventContent[] = []
    const recorder = countEvents(registry, {
      record: (happening) => void handedOn.push(happening),
      statistics: () => ({ waiting: 0, dropped: 7 }),
      stop: async () => {},
    })
    const regarding = { apiVersion: 'v1', kind: 'VirtualMachineConfig', name: 'web', uid: 'c-1' }
    const happening = { regarding, type: 'Warning', reason: 'Failed', message: 'The VM failed' } as const
    recorder.record(happening)
    recorder.record(happening)
    expect(handedOn).toEqual([happening, happening])
    const text = await registry.metrics()
    expect(text).toContain('virtset_events_total{kind="VirtualMachineConfig",type="Warning",reason="Failed"} 2')
    expect([text, await registry.metrics()].map((each) => each.includes('virtset_events_dropped_total 7'))).toEqual([
      true,
      true,
    ])
  })
})
