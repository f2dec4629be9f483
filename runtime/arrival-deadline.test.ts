import { expect, test } from 'vitest'
import { fakeClock } from '../test/fake-clock.ts'
import { createArrivalDeadlines } from './arrival-deadline.ts'

test('expires once after its turns, not after a cancellation, and leaves no timer', async () => {
  const clock = fakeClock()
  const deadlines = createArrivalDeadlines(clock, 4)
  const expired: string[] = []
  deadlines.start(() => expired.push('first'))
  const cancel = deadlines.start(() => expired.push('cancelled'))
  await clock.advance(500)
  deadlines.start(() => expired.push('second'))
  cancel()
  await clock.advance(499)
  expect(expired).toEqual([])
  await clock.advance(1)
  expect(expired).toEqual(['first'])
  await clock.advance(500)
  expect([expired, clock.pending()]).toEqual([['first', 'second'], 0])
})

test('after a computation longer than the deadline, data that arrived meanwhile is read before it expires', () => {
  const due: (() => void)[] = []
  const after = (_: number, run: () => void) => {
    due.push(run)
    return () => {}
  }
  let isExpired = false
  createArrivalDeadlines({ after }, 4).start(() => {
    isExpired = true
  })
  // However much time went by, the event loop runs a timer that is due once.
  due.shift()?.()
  expect([isExpired, due.length]).toEqual([false, 1])
})
