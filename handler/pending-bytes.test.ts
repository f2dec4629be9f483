import { expect, test } from 'vitest'
import { createPendingBytes } from './pending-bytes.ts'

/** Exchanges of 100 bytes in all, each named by its tenant and a number; notes which were ended. */
function setUp() {
  const pending = createPendingBytes(100)
  const ended: string[] = []
  const hold = (name: string, bytes: number) => {
    const held = pending.hold(name.slice(0, 1), () => ended.push(name))
    held.grow(bytes)
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

test('ends the largest exchange of the tenant that holds the most, not the largest of all', () => {
  const { ended, hold } = setUp()
  for (const name of ['a1', 'a2', 'a3', 'a4', 'a5', 'a6']) hold(name, name === 'a4' ? 11 : 10)
  hold('b1', 40)
  expect(ended).toEqual(['a4'])
})

test('ends as many as necessary', () => {
  const { ended, hold } = setUp()
  for (const name of ['a1', 'a2', 'a3', 'a4']) hold(name, 20)
  hold('b1', 50)
  expect(ended).toEqual(['a1', 'a2'])
})

test('released and ended exchanges do not count', () => {
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
