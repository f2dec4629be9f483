import { expect, test } from 'vitest'
import { climb } from '../adversary.ts'
import { fuzz, mutatedReview } from '../fuzz.ts'

test('mutated reviews are all answered, in good form, without an exception or a prototype touched', () => {
  // The time is judged by bench/fuzz.ts, alone on its machine.
  const { faults, allowed } = fuzz(1, 1000, () => 0)
  expect(faults).toEqual([])
  expect(allowed).toBeGreaterThan(0)
}, 60_000)

// Ten times the goal, since nothing is warm here and other tests run beside it: what grows with the square of a list is a hundred times.
test('an adversary finds nothing that costs more than 500 ms of CPU, and 10 ms for each KB', () => {
  const cpuMs = () => {
    const { user, system } = process.cpuUsage()
    return (user + system) / 1000
  }
  const found = [1, 2, 3, 4].map((seed) => climb(seed, 12, cpuMs))
  expect(found.filter(({ score }) => score > 10)).toEqual([])
}, 120_000)

test('a seed makes the same review, whatever was made before', () => {
  const first = Array.from({ length: 200 }, (_, seed) => mutatedReview(seed))
  expect(Array.from({ length: 200 }, (_, seed) => mutatedReview(seed))).toEqual(first)
})
