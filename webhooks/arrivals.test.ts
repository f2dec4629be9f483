import { expect, test } from 'vitest'
import { fakeClock, settle } from '../test/fake-clock.ts'
import { createArrivals } from './arrivals.ts'

const watched = (waiting: Promise<void> | undefined) => {
  const state = { isOver: waiting === undefined }
  void waiting?.then(() => {
    state.isOver = true
  })
  return state
}

test('nobody waits for nothing', () => {
  expect(createArrivals(fakeClock()).wait()).toBe(undefined)
})

test('waits until the watch has told of all that was approved', async () => {
  const clock = fakeClock()
  const arrivals = createArrivals(clock)
  arrivals.expect('a')
  arrivals.expect('ns/b')
  const review = watched(arrivals.wait())
  arrivals.arrived('a')
  arrivals.arrived('other')
  await settle()
  expect(review.isOver).toBe(false)
  arrivals.arrived('ns/b')
  await settle()
  expect([review.isOver, arrivals.wait(), clock.pending()]).toEqual([true, undefined, 0])
})

test('waits no longer than 300 ms for what never comes', async () => {
  const clock = fakeClock()
  const arrivals = createArrivals(clock)
  arrivals.expect('a')
  await clock.advance(200)
  arrivals.expect('a')
  const review = watched(arrivals.wait())
  await clock.advance(299)
  expect(review.isOver).toBe(false)
  await clock.advance(1)
  expect([review.isOver, arrivals.wait()]).toEqual([true, undefined])
})
