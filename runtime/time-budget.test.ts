import { expect, test } from 'vitest'
import { fakeClock } from '../test/fake-clock.ts'
import { createTimeBudget } from './time-budget.ts'

/** A budget of 100 ms at once and a tenth of the time, and work that takes as long as it says. */
function start() {
  const clock = fakeClock()
  let spentMs = 0
  const laterClock = { ...clock, monotonic: () => clock.monotonic() + spentMs }
  const times = { cpuMs: () => spentMs, availableMs: () => laterClock.monotonic() }
  const budget = createTimeBudget({ perSecond: 100, burst: 100 }, clock, times)
  const done: string[] = []
  const add = (name: string, tookMs: number, bytes = 0, before = 0) =>
    budget.add(name.charAt(0), bytes, before, () => {
      spentMs += tookMs
      done.push(name)
    })
  return { clock, budget, done, add }
}

test('work begins at once while there is time left, and then waits for what it has used', async () => {
  const { clock, done, add } = start()
  add('a1', 60)
  add('a2', 60)
  add('a3', 1)
  expect(done).toEqual(['a1', 'a2'])
  // 20 ms are missing. The work itself took 120 ms, in which 12 were added.
  await clock.advance(70)
  expect(done).toEqual(['a1', 'a2'])
  await clock.advance(130)
  expect([done, clock.pending()]).toEqual([['a1', 'a2', 'a3'], 0])
})

test('the next turn is of the peer that has used the least, and of one peer in the order of arrival', async () => {
  const { clock, done, add } = start()
  add('a1', 150)
  add('b1', 40)
  for (const name of ['a2', 'a3', 'b2', 'c1', 'b3']) add(name, 20)
  await clock.advance(60_000)
  expect(done).toEqual(['a1', 'b1', 'c1', 'b2', 'b3', 'a2', 'a3'])
})

test('time in which other processes have the CPU adds nothing to the budget', async () => {
  const clock = fakeClock()
  let [spentMs, availableMs] = [0, 0]
  const times = { cpuMs: () => spentMs, availableMs: () => availableMs }
  const budget = createTimeBudget({ perSecond: 100, burst: 100 }, clock, times)
  const done: number[] = []
  for (const name of [1, 2]) {
    budget.add('a', 0, 0, () => {
      spentMs += 150
      done.push(name)
    })
  }
  await clock.advance(60_000)
  expect(done).toEqual([1])
  availableMs = 500
  await clock.advance(60_000)
  expect([done, clock.pending()]).toEqual([[1, 2], 0])
})

test('work of few bytes precedes work of many', async () => {
  const { clock, done, add } = start()
  add('a1', 200)
  add('b1', 10, 16 * 1024)
  add('c1', 10, 12 * 1024)
  add('d1', 10, 1024)
  await clock.advance(60_000)
  expect(done).toEqual(['a1', 'd1', 'c1', 'b1'])
})

test('of one peer, work that begins and work that continues take turns, of the latter the smallest first', async () => {
  const { clock, done, add } = start()
  add('a1', 200)
  for (const name of ['a2', 'a3', 'a4', 'a5']) add(name, 1, 300)
  add('a+large', 1, 4096, 4096)
  add('a+small', 1, 2048, 300)
  add('a+first', 1, 1024, 300)
  await clock.advance(60_000)
  expect(done).toEqual(['a1', 'a+first', 'a2', 'a+small', 'a3', 'a+large', 'a4', 'a5'])
})

test('what a peer has used is forgotten with time', async () => {
  const { clock, done, add } = start()
  add('a1', 90)
  await clock.advance(10 * 60_000)
  add('b1', 1)
  add('c1', 200)
  add('b2', 1)
  add('a2', 1)
  await clock.advance(60_000)
  expect(done).toEqual(['a1', 'b1', 'c1', 'a2', 'b2'])
})

test('work that is removed is not run', async () => {
  const { clock, done, add } = start()
  add('a1', 200)
  const remove = add('b1', 1)
  add('c1', 1)
  remove()
  await clock.advance(60_000)
  expect(done).toEqual(['a1', 'c1'])
})

test('work that other work adds runs after it, so that its time counts once', () => {
  const { budget, done, add } = start()
  budget.add('a', 0, 0, () => {
    add('b1', 60)
    done.push('a1')
  })
  add('c1', 60)
  expect(done).toEqual(['a1', 'b1', 'c1'])
})
