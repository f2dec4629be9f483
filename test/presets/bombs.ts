/**
 * Conditions that are short but would take all memory or CPU time to evaluate. They use `object.text` and `object.list`
 * of `bombObject`.
 */
export const bombObject = {
  text: 'a'.repeat(60_000),
  texts: Array.from({ length: 2000 }, () => 'a'.repeat(1000)),
  list: Array.from({ length: 3000 }, (_, index) => index),
}

/** Binds `v0` to `first` and each further name to `next` of the one before. */
function bindChain(
  depth: number,
  first: string,
  next: (name: string) => string,
  last: (name: string) => string,
): string {
  const names = Array.from({ length: depth }, (_, index) => `v${index}`)
  const values = [first, ...names.slice(0, -1).map(next)]
  const opening = names.map((name, index) => `cel.bind(${name}, ${values[index]}, `).join('')
  return `${opening}${last(names.at(-1) ?? '')}${')'.repeat(depth)}`
}

const fourTimes = (name: string): string => [name, name, name, name].join(' + ')
const twenty = `[${Array.from({ length: 20 }, (_, index) => index + 1).join()}]`
const isEmpty = (name: string): string => `${name}.size() == 0`

/** Lists that each contain the previous one twice: small until they are traversed. */
const tree = (depth: number): string =>
  bindChain(
    depth,
    '[1]',
    (name) => `[${name}, ${name}]`,
    (name) => name,
  )

/** Titles and expressions. */
export const bombs: readonly (readonly [string, string])[] = [
  ['lists doubled by nested binds', bindChain(14, twenty, fourTimes, isEmpty)],
  ['texts doubled by nested binds', bindChain(22, '"aaaaaaaa"', fourTimes, isEmpty)],
  ['bytes doubled by nested binds', bindChain(22, 'b"aaaaaaaa"', fourTimes, isEmpty)],
  ['maps that hold the one before twice, compared', `${tree(20)} == ${tree(20)}`],
  ['the same looked up in a list', `${tree(20)} in [${tree(20)}]`],
  ['the same as the key of a map', `{"a": 1}[?${tree(20)}].hasValue() || ${tree(20)} == ${tree(20)}`],
  ['a text doubled by loops', `[object.text]${'.map(a, a + a)'.repeat(20)}.size() == 0`],
  ['a list doubled by loops', `[object.list]${'.map(a, a + a)'.repeat(20)}.size() == 0`],
  ['loops in loops', 'object.list.all(a, object.list.all(b, object.list.all(c, a + b + c >= 0)))'],
  ['loops in loops whose errors are absorbed', 'object.list.exists(a, object.list.exists(b, a.gone || b.gone))'],
  ['a text of a list in a loop', 'object.texts.all(a, object.texts.join(a).size() > 0)'],
  ['a text split in a loop', 'object.texts.all(a, object.text.split("").size() > 0)'],
  [
    'a search that never jumps',
    'object.list.all(a, object.text.contains("b" + object.text.substring(30000)) == false)',
  ],
  ['a text in capitals in a loop', 'object.list.all(a, object.text.upperAscii() != "")'],
  [
    'bytes of JSON in a loop',
    'object.list.all(a, bytes("[" + object.texts.map(t, "{}").join(",") + "]").json() != {})',
  ],
  ['hexadecimal digits of hexadecimal digits', bindChain(20, 'object.text', (name) => `bytes(${name}).hex()`, isEmpty)],
  ['large patterns on a long text', 'object.texts.all(t, !object.text.matches("([a-z]?){300}[0-9]"))'],
  ['patterns of the object', 'object.texts.all(t, t.matches("(" + object.texts[0].substring(0, 400) + ")*$"))'],
  ['time zones in a loop', 'object.list.all(a, timestamp(a).getHours("Europe/Berlin") >= 0)'],
  ['timestamps in a loop', 'object.list.all(a, object.list.all(b, timestamp("2026-01-02T03:04:05Z") > timestamp(a)))'],
  [
    'durations that backtrack',
    'object.list.exists(a, duration("1111111111111111111111111111111111111111111111111111111111") == duration("1s"))',
  ],
  [
    'quantities in a loop',
    'object.list.all(a, object.list.all(b, quantity("9e999").isGreaterThan(quantity("1e999"))))',
  ],
  [
    'numbers of a map in a loop',
    'object.list.all(a, object.list.map(b, {"a": b, "b": [b, b], "c": {"d": b}}).size() > 0)',
  ],
]
