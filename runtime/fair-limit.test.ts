import { expect, test } from 'vitest'
import { createFairLimit } from './fair-limit.ts'

/** Holders of 100 in all, each named by its tenant and a number; notes which were ended. */
function setUp() {
  const limit = createFairLimit(100)
  const ended: string[] = []
  const hold = (name: string, amount: number) => {
    const held = limit.hold(name.slice(0, 1), () => ended.push(name))
    held.grow(amount)
    return held
  }
  return { ended, hold }
}

test('ends nothing below the limit', () => {
  const { ended, hold } = setUp()
  hold('a1', 60)
  hold('b1', 40)
  expect(ended).toEqual([])
})

test('ends the largest one of the tenant that holds the most, not the largest of all', () => {
  const { ended, hold } = setUp()
  for (const name of ['a1', 'a2', 'a3', 'a4', 'a5', 'a6']) hold(name, name === 'a4' ? 11 : 10)
  hold('b1', 40)
  expect(ended).toEqual(['a4'])
})

test('ends as many as necessary, of equal ones the last', () => {
  const { ended, hold } = setUp()
  for (const name of ['a1', 'a2', 'a3', 'a4']) hold(name, 20)
  hold('b1', 50)
  expect(ended).toEqual(['a4', 'a3'])
})

test('what was released or ended does not count', () => {
  const { ended, hold } = setUp()
  const first = hold('a1', 90)
  first.release()
  first.release()
  const second = hold('b1', 101)
  second.grow(1000)
  second.release()
  hold('c1', 100)
  expect(ended).toEqual(['b1'])
})

test('refuses another one to the tenant that holds the most, and ends one of it for any other', () => {
  const { ended, hold } = setUp()
  for (let number = 1; number <= 10; number++) hold(`a${number}`, 10)
  hold('a11', 10)
  hold('b1', 10)
  hold('c1', 10)
  expect(ended).toEqual(['a11', 'a10', 'a9'])
})

test('of tenants that hold the same, the one that began last loses its last one', () => {
  const { ended, hold } = setUp()
  for (const name of ['a1', 'b1', 'a2', 'b2']) hold(name, 25)
  hold('c1', 25)
  hold('c2', 25)
  expect(ended).toEqual(['b2', 'c2'])
})
