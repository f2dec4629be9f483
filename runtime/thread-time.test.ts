import { expect, test } from 'vitest'
import { threadMs } from './thread-time.ts'

test('the time of work is seen that takes microseconds', () => {
  let [seen, before] = [0, threadMs()]
  // The work is to ask for the time.
  for (let count = 0; count < 1000; count++) {
    const after = threadMs()
    if (after > before) seen++
    before = after
  }
  expect(seen).toBeGreaterThan(900)
})
