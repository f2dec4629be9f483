import fc from 'fast-check'
import { expect, test } from 'vitest'
import { canonicalCpuset, createOwners, firstOutside, numbersOf, rangesOf, restOf } from './cpuset.ts'

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

// An earlier expression was quadratic in white space, and would take minutes.
test.each([' '.repeat(16_000), `1${' '.repeat(16_000)}x`, `^${' '.repeat(16_000)}`, `1-${' '.repeat(16_000)}x`])(
  'thousands of texts of white space are refused at once (%#)',
  (text) => {
    const refused = Array.from({ length: 2000 }, (_, at) => canonicalCpuset(text + ' '.repeat(at % 2))).filter(
      (result) => result.startsWith(text),
    )
    expect(refused).toHaveLength(2000)
  },
)

const anySet = fc.array(fc.tuple(fc.boolean(), fc.nat(12), fc.nat(4)), { minLength: 1, maxLength: 8 }).map((parts) => ({
  text: parts.map(([isKept, first, more]) => `${isKept ? '' : '^'}${first}-${first + more}`).join(','),
  numbers: parts.reduce((numbers, [isKept, first, more]) => {
    const part = new Set(Array.from({ length: more + 1 }, (_, at) => first + at))
    return isKept ? numbers.union(part) : numbers.difference(part)
  }, new Set<number>()),
}))

const ascending = (numbers: ReadonlySet<number>): number[] => [...numbers].toSorted((a, b) => a - b)

test('sets have the numbers of their parts, one after the other', () => {
  fc.assert(
    fc.property(anySet, ({ text, numbers }) => {
      expect(numbersOf(text)).toEqual(ascending(numbers))
    }),
  )
})

test('ranges are compared as the numbers that they stand for', () => {
  fc.assert(
    fc.property(anySet, anySet, (one, other) => {
      const [left, right] = [rangesOf(one.text), rangesOf(other.text)]
      const [common] = ascending(one.numbers.intersection(other.numbers))
      const owners = createOwners()
      owners.set(left, 3)
      expect([firstOutside(left, right), owners.find(right), owners.find(right, 3)]).toEqual([
        ascending(one.numbers.difference(other.numbers))[0],
        common === undefined ? undefined : { number: common, owner: 3 },
        undefined,
      ])
    }),
  )
})
