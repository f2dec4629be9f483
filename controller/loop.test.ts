import { expect, test } from 'vitest'

import type { VirtualMachine } from '../api/virtual-machine.ts'
import type { KubeClient } from '../runtime/kube.ts'
import { createLogger } from '../runtime/log.ts'
import { fakeClock } from '../test/fake-clock.ts'
import { until } from '../test/until.ts'
import { createLoop } from './loop.ts'

test('works on the objects of a namespace while those of another take all the time that they can get', async () => {
  const started: string[] = []
  const ending = Promise.withResolvers<void>()
  const loop = createLoop<VirtualMachine>({
    kube: {} as KubeClient,
    events: { record: () => {} },
    log: createLogger({ process: 'test', level: 'silent' }),
    isLeader: () => true,
    clock: fakeClock(),
    reconcile: async (key) => {
      started.push(key)
      if (key.startsWith('greedy/')) await ending.promise
    },
    keys: () => Array.from({ length: 100 }, (_, index) => `greedy/vm-${index}`),
    caches: [],
    concurrency: 4,
  })
  await loop.lead()
  loop.add('modest/vm')
  await until(() => started.includes('modest/vm'))
  expect(started.filter((key) => key.startsWith('greedy/'))).toHaveLength(3)
  ending.resolve()
  await loop.stop()
})
