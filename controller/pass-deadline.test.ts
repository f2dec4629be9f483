import { expect, test } from 'vitest'
import { fakeClock } from '../test/fake-clock.ts'
import { createPassDeadline } from './pass-deadline.ts'

test('the time of a pass begins with its first write', async () => {
  const clock = fakeClock()
  const deadline = createPassDeadline(clock)
  await clock.advance(60_000)
  const over: boolean[] = []
  for (const ms of [0, 1000, 999, 1]) {
    await clock.advance(ms)
    over.push(deadline.isOver())
  }
  expect(over).toEqual([false, false, false, true])
})
