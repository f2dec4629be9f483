import { describe, expect, it } from 'vitest'
import { createMetrics, observeReflectors } from './metrics.ts'

describe('metrics', () => {
  it('has the process and every cache', async () => {
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
})
