import fc from 'fast-check'
import { expect, test } from 'vitest'
import { orderedAs, sortKeys } from './key-order.ts'

test('sorting keys and restoring their order changes nothing', () => {
  fc.assert(
    fc.property(fc.jsonValue(), (value) => {
      const sorted = sortKeys(value)
      expect(sorted).toEqual(value)
      expect(JSON.stringify(orderedAs(value, sorted))).toBe(JSON.stringify(value))
    }),
  )
})

test('new keys come last', () => {
  const written = { b: 1, a: [{ y: 1, x: 1 }] }
  const value = {
    a: [
      { w: 0, x: 1, y: 1 },
      { d: 1, c: 1 },
    ],
    aa: 1,
    b: 1,
  }
  expect(JSON.stringify(orderedAs(written, value))).toBe('{"b":1,"a":[{"y":1,"x":1,"w":0},{"d":1,"c":1}],"aa":1}')
})
