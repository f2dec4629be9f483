import fc from 'fast-check'
import { expect, test } from 'vitest'
import { jsonBytes } from './json-bytes.ts'

test('are those of the text', () => {
  fc.assert(
    fc.property(fc.jsonValue({ stringUnit: 'binary' }), (value) => {
      expect(jsonBytes(value, Infinity)).toBe(Buffer.byteLength(JSON.stringify(value)))
    }),
  )
})

test('a member that is undefined has none', () => {
  expect(jsonBytes({ a: 1, b: undefined }, Infinity)).toBe('{"a":1}'.length)
  expect(jsonBytes({ b: undefined }, Infinity)).toBe('{}'.length)
})

test('are no longer counted once there are more than the most', () => {
  let reads = 0
  const text = {
    get text() {
      reads += 1
      return 'x'.repeat(100)
    },
  }
  expect(
    jsonBytes(
      Array.from({ length: 1000 }, () => text),
      1000,
    ),
  ).toBeGreaterThan(1000)
  expect(reads).toBeLessThan(20)
})
