import { expect, test } from 'vitest'
import { isSameJson } from './same-json.ts'

const nested = (depth: number, end: string) => JSON.parse(`${'{"a":['.repeat(depth)}${end}${']}'.repeat(depth)}`)

test.each<[unknown, unknown, boolean]>([
  [1, 1, true],
  [1, '1', false],
  [undefined, undefined, true],
  [null, {}, false],
  [{}, [], false],
  [{ a: 1, b: [2, { c: null }] }, { b: [2, { c: null }], a: 1 }, true],
  [{ a: 1 }, { a: 1, b: 2 }, false],
  [{ a: 1, b: 2 }, { a: 1, c: 2 }, false],
  [{ a: undefined }, { b: undefined }, false],
  [[1, 2], [2, 1], false],
  [[1, 2], [1, 2, 3], false],
  [JSON.parse('{"__proto__": {"a": 1}}'), {}, false],
  [JSON.parse('{"__proto__": {"a": 1}}'), JSON.parse('{"__proto__": {"a": 1}}'), true],
  [JSON.parse('{"__proto__": {"a": 1}}'), JSON.parse('{"__proto__": {"a": 2}}'), false],
  [{ constructor: Object }, { other: 1 }, false],
])('%j and %j', (one, other, expected) => {
  expect([isSameJson(one, other), isSameJson(other, one)]).toEqual([expected, expected])
})

test('values that are nested as deeply as the API server accepts', () => {
  expect([isSameJson(nested(5000, '1'), nested(5000, '1')), isSameJson(nested(5000, '1'), nested(5000, '2'))]).toEqual([
    true,
    false,
  ])
})

test('the items of lists of different lengths are not read', () => {
  const unread = new Proxy([1, 2], {
    ownKeys: () => {
      throw new Error('read')
    },
  })
  expect([isSameJson(unread, [1]), isSameJson([1], unread)]).toEqual([false, false])
})
