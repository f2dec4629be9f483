import { describe, expect, test, vi } from 'vitest'
import { parseManifest, toYaml } from './yaml.ts'

const read = (text: string): unknown => {
  const manifest = parseManifest(text)
  return 'values' in manifest ? manifest.values[0] : manifest
}

/** The values that kubectl 1.36 reads. */
const scalars: readonly (readonly [string, unknown])[] = [
  ['y', true],
  ['yes', true],
  ['On', true],
  ['N', false],
  ['off', false],
  ['010', 8],
  ['0o10', 8],
  ['019', 19],
  ['0x1f', 31],
  ['-0x1f', -31],
  ['0b11', 3],
  ['1_000', 1000],
  ['1e3', 1000],
  ['.5', 0.5],
  ['+1', 1],
  ['~', null],
  ['1:30', '1:30'],
  ['52:54:00:12:34:56', '52:54:00:12:34:56'],
  ['2001-01-01', '2001-01-01'],
  ['"yes"', 'yes'],
]

describe('YAML', () => {
  test.each(scalars)('%s is read as kubectl reads it', (text, value) =>
    expect(read(`a: ${text}`)).toEqual({ a: value }),
  )

  test.each(scalars.filter(([, value]) => typeof value !== 'object'))(
    'the string %s is written so that it remains a string',
    (text) => {
      expect(read(toYaml({ a: text }))).toEqual({ a: text })
    },
  )

  test('merges keys with <<', () =>
    expect(read('a: &a {x: 1}\nb: {<<: *a, z: 2}')).toEqual({ a: { x: 1 }, b: { x: 1, z: 2 } }))

  test('merges two maps, of which the first decides', () =>
    expect(read('a: &a {x: 1}\nb: &b {x: 2, z: 2}\nc: {<<: *a, <<: *b}')).toMatchObject({ c: { x: 1, z: 2 } }))

  test.each([
    ['lines', '', ': v\n', ''],
    ['braces', '{', ': v, ', '}'],
  ])('reads keys in %s in linear time', (_, first, between, last) => {
    const userMs = (length: number): number => {
      const keys = Array.from({ length }, (__, index) => `k${index}${between}`).join('')
      const before = process.cpuUsage()
      expect(Object.keys(Object(read(`${first}${keys}${last}`)))).toHaveLength(length)
      return process.cpuUsage(before).user / 1000
    }
    userMs(2000)
    // In quadratic time, 64 times as long; in linear time, 8 times.
    expect(userMs(32_000)).toBeLessThan(32 * userMs(4000))
  })

  test('has the library print nothing', () => {
    const emit = vi.spyOn(process, 'emitWarning').mockReturnValue()
    read('? [a, "\\e[2J"]\n: c')
    expect(emit).not.toHaveBeenCalled()
    emit.mockRestore()
  })

  test('writes a shared value twice', () => {
    const same = { x: 1 }
    expect(toYaml({ a: same, b: same })).toBe('a:\n  x: 1\nb:\n  x: 1\n')
  })

  test.each([
    ['a: [1', '1:6: Flow sequence in block collection must be sufficiently indented and end with a ]'],
    ['a: 1\na: 2', '2:1: key "a" already set in map'],
    ['a: [{b: 1, c: 2, b: 3}]', '1:18: key "b" already set in map'],
    ['b: &b x\nx: 1\n*b : 2', '3:1: key "x" already set in map'],
    ['"a\\u001b\\n": 1\n"a\\e\\n": 2', String.raw`2:1: key "a\u001b\n" already set in map`],
    ['010: 1\n8: 2', '2:1: key 8 already set in map'],
    ['a: {{ b }}', '1:5: a key must be a scalar, not a list or a map'],
    ['? [a, b]\n: c', '1:3: a key must be a scalar, not a list or a map'],
    ['a: &a [b]\nc: {*a : d}', '2:5: a key must be a scalar, not a list or a map'],
  ])('%j is invalid', (text, problem) => expect(read(text)).toEqual({ problem }))

  test.each([
    ['names nothing', 'a: [*b]', '1:5: Unresolved alias (the anchor must be set before the alias): b'],
    ['inside the value that it names', 'a: &a [*a]', '1:8: an alias is inside the value that it names'],
    [
      'multiplies without end',
      Array.from(
        { length: 10 },
        (_, level) => `k${level}: &a${level} [${'x,'.repeat(9).replaceAll('x', level === 0 ? 'x' : `*a${level - 1}`)}]`,
      ).join('\n'),
      '2:10: Excessive alias count indicates a resource exhaustion attack',
    ],
    [
      'one too many to be merged',
      ['b: &b {c: 1}', ...Array.from({ length: 501 }, (_, index) => `m${index}: {<<: *b}`)].join('\n'),
      '502:12: more than 500 aliases',
    ],
  ])('reports an alias that is %s', (_, text, problem) => expect(parseManifest(text)).toEqual({ problem }))

  test.each([
    ['documents', 'kind: A\n---\n---\nkind: B\n'],
    ['a List', 'kind: List\nitems: [{kind: A}, {kind: B}]'],
    ['a List of JSON', '{"kind": "AList", "items": [{"kind": "A"}, {"kind": "B"}]}'],
    ['YAML that looks like JSON', '{kind: List, items: [{kind: A}, {kind: B}]}'],
  ])('reads the objects of %s', (_, text) =>
    expect(parseManifest(text)).toEqual({ values: [{ kind: 'A' }, { kind: 'B' }] }),
  )
})

test('a text that only begins like a number with underscores is read in linear time', () => {
  const text = `1${'_'.repeat(500_000)}x`
  expect(read(`a: ${text}`)).toEqual({ a: text })
})
