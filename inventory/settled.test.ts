import { expect, test } from 'vitest'
import { fakeClock } from '../test/fake-clock.ts'
import { createSettled } from './settled.ts'

const setUp = () => {
  const clock = fakeClock()
  const settled = createSettled({ perSecond: 1 / 60, burst: 2 }, 10, clock)
  const applied: string[] = []
  return {
    clock,
    settled,
    applied,
    change: (key: string, text: string) => settled.change(key, () => applied.push(text)),
  }
}

test('the first changes of a key count at once, later ones once a minute with the last state', async () => {
  const { clock, applied, change } = setUp()
  for (let index = 0; index < 100; index++) change('a', `a${index}`)
  expect(applied).toEqual(['a0', 'a1'])
  await clock.advance(59_000)
  change('a', 'last')
  expect(applied.length).toBe(2)
  await clock.advance(1001)
  expect(applied).toEqual(['a0', 'a1', 'last'])
  change('a', 'soon')
  await clock.advance(59_000)
  expect(applied.length).toBe(3)
  await clock.advance(1001)
  expect(applied.slice(3)).toEqual(['soon'])
})

test('keys do not wait for each other, and none waits after the end', async () => {
  const { clock, settled, applied, change } = setUp()
  for (let index = 0; index < 5; index++) change('a', `a${index}`)
  change('b', 'b0')
  expect(applied).toEqual(['a0', 'a1', 'b0'])
  settled.stop()
  expect(clock.pending()).toBe(0)
})
