import { expect, test } from 'vitest'
import { enterPhase } from './phase-times.ts'

const at = (second: number) => new Date(second * 1000).toISOString()

test('a phase is entered once', () => {
  const before = enterPhase([], 'Pending', at(1))
  expect(enterPhase(before, 'Pending', at(2))).toBe(before)
  expect(enterPhase(before, 'Running', at(3))).toEqual([
    { phase: 'Pending', time: at(1) },
    { phase: 'Running', time: at(3) },
  ])
})

test('stores the newest 32 of a VM whose node keeps failing', () => {
  const all = Array.from({ length: 100 }, (_, second) => second).reduce(
    (before, second) => enterPhase(before, second % 2 === 0 ? 'Running' : 'Unknown', at(second)),
    enterPhase([], 'Pending', at(0)),
  )
  expect(all).toHaveLength(32)
  expect(all.at(-1)).toEqual({ phase: 'Unknown', time: at(99) })
})
