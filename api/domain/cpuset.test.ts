import { expect, test } from 'vitest'
import { canonicalCpuset, numbersOf, restOf } from './cpuset.ts'

test.each([
  ['0', '0'],
  ['0-3', '0-3'],
  ['0,1,2,3', '0-3'],
  ['3,1', '1,3'],
  ['0-1', '0-1'],
  ['0-3,^2,8', '0-1,3,8'],
  ['0-7,^0,^7', '1-6'],
  ['0-7,^2-4', '0-1,5-7'],
  ['^2,0-3', '0-3'],
  ['0-3,2-5', '0-5'],
  [' 0 - 3 , ^ 1 ', '0,2-3'],
  ['0-99999', '0-99999'],
  ['007', '7'],
])('%s is %s', (text, canonical) => expect(canonicalCpuset(text)).toBe(canonical))

test.each<[number, string[], string]>([
  [4, [], '0-3'],
  [4, ['1'], '0,2-3'],
  [8, ['1-2', '2-4', '7-99999'], '0,5-6'],
  [4, ['0-3'], ''],
  [1, ['1'], '0'],
  [0, [], ''],
])('of %i numbers %j leaves %s', (count, sets, rest) => expect(restOf(count, sets)).toBe(rest))

test.each(['', '0-3,^0-3', '^1', ' ', 'aaa', '3-1', '1,,2', '-1', '0x1'])(
  'returns %s unchanged: it is not a set',
  (text) => expect(canonicalCpuset(text)).toBe(text),
)

test.each<[string | undefined, readonly number[]]>([
  [undefined, []],
  ['', []],
  ['0-3,^2,8', [0, 1, 3, 8]],
  ['5', [5]],
  ['4095-4096', [4095, 4096]],
  ['no set', []],
])('the numbers of %j', (text, numbers) => {
  expect(numbersOf(text)).toEqual(numbers)
})

test('no more numbers are listed than asked for', () => {
  expect(numbersOf('7,0-99999', 3)).toEqual([0, 1, 2])
})

test('at most 4096 numbers are listed', () => {
  expect(numbersOf('0-9999')).toEqual(Array.from({ length: 4096 }, (_, number) => number))
})
