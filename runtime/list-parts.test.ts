import * as fc from 'fast-check'
import { expect, it } from 'vitest'
import { listParts } from './list-parts.ts'
import { parserOf } from './partial-json.ts'

async function partsOf(text: string, chunkBytes = Infinity, limitBytes?: number) {
  const bytes = Buffer.from(text)
  const step = Math.min(chunkBytes, bytes.length)
  async function* chunks() {
    for (let at = 0; at < bytes.length; at += step) yield bytes.subarray(at, at + step)
  }
  const items: unknown[] = []
  for await (const part of listParts(chunks(), parserOf(true), limitBytes)) {
    if ('list' in part) return { items, list: part.list }
    items.push(part.item)
  }
  throw new Error('the list did not end')
}

const metadata = { resourceVersion: '5', continue: 'token' }

it.each<[string, object, unknown[]]>([
  [
    'with items last, as of built-in kinds',
    { kind: 'List', metadata, items: [{ a: 1 }, { b: [{}] }] },
    [{ a: 1 }, { b: [{}] }],
  ],
  ['with items first, as of custom resources', { items: [{ a: 1 }], metadata }, [{ a: 1 }]],
  ['that is empty', { metadata, items: [] }, []],
  ['without items', { metadata, items: null }, []],
  [
    'with another list of this name below',
    { metadata: { ...metadata, items: [{ a: 1 }] }, items: [{ b: 2 }] },
    [{ b: 2 }],
  ],
  ['with another list before', { errors: [{ a: 1 }], items: [{ b: 2 }], metadata }, [{ b: 2 }]],
])('returns the objects of a list %s, and the rest', async (_, list, items) => {
  const found = await partsOf(JSON.stringify(list, undefined, 1))
  expect(found).toEqual({ items, list: 'items' in list && list.items !== null ? { ...list, items: [] } : list })
})

it('equals JSON.parse for all lists and chunks', async () => {
  const value = fc.oneof(fc.jsonValue(), fc.constantFrom('"', '\\', '\\"', '[{"items":[', '}]', 'Grüße 🖥'))
  const object = fc.dictionary(fc.string({ unit: 'binary' }), value)
  await fc.assert(
    fc.asyncProperty(
      fc.array(object),
      object,
      fc.integer({ min: 1, max: 9 }),
      fc.boolean(),
      async (items, more, size, isFirst) => {
        const { items: _items, ...others } = more
        const list = isFirst ? { items, metadata: others } : { metadata: others, items }
        const text = JSON.stringify(list)
        const parsed = JSON.parse(text)
        expect(await partsOf(text, size)).toEqual({ items: parsed.items, list: { ...parsed, items: [] } })
      },
    ),
  )
})

it('parses each object as it is told, and the rest whole', async () => {
  async function* chunks() {
    yield Buffer.from(JSON.stringify({ metadata: { a: 1, b: 2 }, items: [{ a: 1, b: 2 }, { a: 3 }] }))
  }
  const parts = await Array.fromAsync(listParts(chunks(), parserOf({ b: true })))
  expect(parts).toEqual([{ item: { b: 2 } }, { item: {} }, { list: { metadata: { a: 1, b: 2 }, items: [] } }])
})

it.each([
  ['ends early', '{"items":[{"a":1},{"b":', SyntaxError],
  ['is not JSON', 'no', SyntaxError],
  ['has an object that is too long', `{"items":[{"a":"${'x'.repeat(100)}"}]}`, RangeError],
])('throws if the list %s', async (_, text, error) => {
  await expect(partsOf(text, 7, 50)).rejects.toThrow(error)
})
