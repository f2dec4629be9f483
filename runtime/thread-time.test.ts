import { expect, test } from 'vitest'
import { setTimeout as delay } from 'node:timers/promises'
import { availableMs, threadMs } from './thread-time.ts'

test('the time of work is seen that takes microseconds', () => {
  let [seen, before] = [0, threadMs()]
  // The work is to ask for the time.
  for (let count = 0; count < 1000; count++) {
    const after = threadMs()
    if (after > before) seen++
    before = after
  }
  expect(seen).toBeGreaterThan(500)
})

test('time is available in which the thread is idle', async () => {
  const [before, usedBefore] = [availableMs(), threadMs()]
  await delay(200)
  const used = threadMs() - usedBefore
  expect(availableMs() - before - used).toBeGreaterThan(100)
})
