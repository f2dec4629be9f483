import { expect, test } from 'vitest'
import { createShares } from './shares.ts'

test('each key has as many places as the limit, and gets them back once', () => {
  const shares = createShares(2)
  const [first, second] = [shares.take('a'), shares.take('a')]
  expect([first, second, shares.take('a'), shares.take('b')].map((place) => place !== undefined)).toEqual([
    true,
    true,
    false,
    true,
  ])
  first?.()
  first?.()
  expect([shares.take('a'), shares.take('a')].map((place) => place !== undefined)).toEqual([true, false])
})
