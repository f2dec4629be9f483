import { expect, test } from 'vitest'
import { fuzz, mutatedReview } from '../fuzz.ts'

test('mutated reviews are all answered, in good form, without an exception or a prototype touched', () => {
  // The time is judged by bench/fuzz.ts, alone on its machine.
  const { faults, allowed } = fuzz(1, 1000, () => 0)
  expect(faults).toEqual([])
  expect(allowed).toBeGreaterThan(0)
}, 60_000)

test('a seed makes the same review, whatever was made before', () => {
  const first = Array.from({ length: 200 }, (_, seed) => mutatedReview(seed))
  expect(Array.from({ length: 200 }, (_, seed) => mutatedReview(seed))).toEqual(first)
})
