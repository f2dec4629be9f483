import fc from 'fast-check'
import { expect, test } from 'vitest'
import { jsonListItems } from './json-list.ts'
import { isList } from './yaml.ts'

const itemsOf = (text: string): unknown => jsonListItems(Buffer.from(text))?.map((item) => item.toString())

test.each<[string, string, unknown]>([
  ['a List', '{"kind": "List", "items": [{"a": 1}, {"b": "]}"}]}', ['{"a": 1}', '{"b": "]}"}']],
  ['a List of one kind', ' {"items":[{"a":[{}]}],"kind":"PodList"}\n', ['{"a":[{}]}']],
  ['an empty List', '{"kind": "List", "items": [ ]}', []],
  ['items of something inside', '{"metadata": {"items": [{}]}, "kind": "List", "items": [{"a": 1}]}', ['{"a": 1}']],
  ['items as a value', '{"kind": "List", "a": "items", "items": [{"a": "\\"}"}]}', ['{"a": "\\"}"}']],
  ['another `items` before', '{"items": 1, "kind": "List", "items": [{}]}', ['{}']],
  ['another `items` after', '{"kind": "List", "items": [{}], "it\\u0065ms": []}', undefined],
  ['no List', '{"kind": "A", "items": [{}]}', undefined],
  ['a List without items', '{"kind": "List"}', undefined],
  ['items that are not objects', '{"kind": "List", "items": [1]}', undefined],
  ['a comma too many', '{"kind": "List", "items": [{},]}', undefined],
  ['no comma', '{"kind": "List", "items": [{} {}]}', undefined],
  ['a List that is cut', '{"kind": "List", "items": [{}, {"a"', undefined],
  ['two documents', '{"kind": "List", "items": [{}]}\n---\n{"kind": "List"}', undefined],
  ['YAML', 'kind: List\nitems: [{}]\n', undefined],
  ['an array', '[{"items": [{}]}]', undefined],
  ['nothing', '', undefined],
])('%s', (_, text, items) => expect(itemsOf(text)).toEqual(items))

/** The parsed items; undefined if one is invalid JSON. */
function parsedItems(bytes: Buffer): unknown {
  try {
    return jsonListItems(bytes)?.map((item) => JSON.parse(item.toString()))
  } catch {
    return undefined
  }
}

const list = fc.record({
  items: fc.array(fc.dictionary(fc.string({ unit: 'binary' }), fc.jsonValue())),
  kind: fc.constantFrom('List', 'VirtualMachineList'),
  metadata: fc.jsonValue(),
})

test('the items equal those of the List parsed at once', () => {
  fc.assert(
    fc.property(list, fc.nat(2), (value, indent) => {
      const text = JSON.stringify(value, null, indent)
      expect(parsedItems(Buffer.from(text))).toEqual(JSON.parse(text).items)
    }),
  )
})

test('a damaged List never yields items that differ from its own', () => {
  fc.assert(
    fc.property(
      list,
      fc.nat(),
      fc.constantFrom('{', '}', '[', ']', ',', ':', '"', '\\', ' ', '0'),
      fc.nat(1),
      (value, place, byte, cut) => {
        const text = JSON.stringify(value)
        const at = place % text.length
        const corrupted = Buffer.from(text.slice(0, at) + byte + text.slice(at + cut))
        const items = parsedItems(corrupted)
        if (items === undefined) return
        const whole: unknown = JSON.parse(corrupted.toString())
        expect([isList(whole), items]).toEqual([true, isList(whole) ? whole.items : undefined])
      },
    ),
    { numRuns: 1000 },
  )
})
