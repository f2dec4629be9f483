import { expect, test } from 'vitest'
import { climb } from '../adversary.ts'
import { fuzz, mutatedReview } from '../fuzz.ts'

test('mutated requests all get a well-formed response, without an exception or a polluted prototype', () => {
  // bench/fuzz.ts checks the time, without other load.
  const { faults, allowed } = fuzz(1, 1000, () => 0)
  expect(faults).toEqual([])
  expect(allowed).toBeGreaterThan(0)
})

// Ten times the goal, because nothing is warm here and other tests run as well. Quadratic cost would be a hundred times
// the goal.
test('an adversary finds no request that costs more than 500 ms of CPU and 10 ms for each KB', () => {
  const cpuMs = () => {
    const { user, system } = process.cpuUsage()
    return (user + system) / 1000
  }
  const found = [1, 2, 3, 4].map((seed) => climb(seed, 12, cpuMs))
  expect(found.filter(({ score }) => score > 10)).toEqual([])
})

test('a seed always generates the same request', () => {
  const first = Array.from({ length: 200 }, (_, seed) => mutatedReview(seed))
  expect(Array.from({ length: 200 }, (_, seed) => mutatedReview(seed))).toEqual(first)
})
