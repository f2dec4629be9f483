import { expect, test } from 'vitest'
import { fakeClock } from '../test/fake-clock.ts'
import { createStopwatch } from './stopwatch.ts'

test('counts from the first observation of a state, per object and mark, whatever the wall clock does', async () => {
  const clock = fakeClock()
  const stopwatch = createStopwatch<'a' | 'b'>(clock, () => true)
  const measure = (uid: string, ...states: ['a' | 'b', string][]) => [...stopwatch.measure(uid, new Map(states))]
  expect(measure('1', ['a', 'x'])).toEqual([['a', 0]])
  await clock.advance(100)
  expect(measure('1', ['a', 'x'], ['b', 'y'])).toEqual([
    ['a', 100],
    ['b', 0],
  ])
  expect(measure('2', ['a', 'x'])).toEqual([['a', 0]])
  await clock.advance(10)
  expect(measure('1', ['a', 'other'], ['b', 'y'])).toEqual([
    ['a', 0],
    ['b', 10],
  ])
  expect(measure('1')).toEqual([])
  expect(measure('1', ['b', 'y'])).toEqual([['b', 0]])
  stopwatch.forget('1')
  stopwatch.forget('2')
  expect(stopwatch.size).toBe(0)
})

test('an object that was deleted while it was read leaves nothing behind', () => {
  const stopwatch = createStopwatch<'a'>(fakeClock(), (uid) => uid !== 'deleted')
  for (const uid of ['deleted', '1']) stopwatch.measure(uid, new Map([['a', 'x']]))
  expect(stopwatch.size).toBe(1)
})
