import { expect, test } from 'vitest'
import { isOlder, precedes } from './age.ts'

const of = (uid: string, second?: number) => ({
  name: 'x',
  uid,
  resourceVersion: '1',
  ...(second === undefined ? {} : { creationTimestamp: `2030-01-01T00:00:0${second}Z` }),
})

test.each([
  ['an earlier one', of('b', 1), of('a', 2), true, true],
  ['a later one', of('a', 2), of('b', 1), false, false],
  ['one of the same second', of('a', 1), of('b', 1), false, true],
  ['the other one of the same second', of('b', 1), of('a', 1), false, false],
  ['one whose time is not known', of('a'), of('b', 1), false, true],
])('%s', (_, one, other, older, first) => {
  expect([isOlder(one, other), precedes({ metadata: one }, { metadata: other })]).toEqual([older, first])
})
