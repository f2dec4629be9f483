import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { expect, test } from 'vitest'
import { heapCostOf } from './heap-cost.ts'

setFlagsFromString('--expose-gc')
const collect = runInNewContext('gc') as () => void

const count = 30_000
const nameOf = (index: number) => index.toString(36)
const itemsOf = (item: (index: number) => string) =>
  `[${Array.from({ length: count }, (_, index) => item(index)).join()}]`

test.each([
  ['empty objects', itemsOf(() => '{}')],
  ['empty lists', itemsOf(() => '[]')],
  ['lists of a number', itemsOf(() => '[0]')],
  ['lists in lists', itemsOf(() => '[[[[[[]]]]]]')],
  ['objects in objects', itemsOf(() => '{"a":{"a":{}}}')],
  ['objects whose property has a name of its own', itemsOf((index) => `{"${nameOf(index)}":0}`)],
  ['objects with two such properties', itemsOf((index) => `{"${nameOf(index)}":0,"z${nameOf(index)}":0}`)],
  ['one object of many properties', `{${Array.from({ length: count }, (_, index) => `"${nameOf(index)}":0`).join()}}`],
  ['fractions', itemsOf(() => '1.5')],
  ['a text of two bytes for a character', JSON.stringify({ text: `${'x'.repeat(1_000_000)}€` })],
  ['short texts', itemsOf((index) => `"${nameOf(index)}"`)],
])('%s take no more heap than estimated', (_, text) => {
  collect()
  const before = process.memoryUsage().heapUsed
  const parsed: unknown = JSON.parse(text)
  collect()
  const taken = process.memoryUsage().heapUsed - before
  expect(parsed).toBeDefined()
  // The test runner takes some heap meanwhile.
  expect(heapCostOf(Buffer.from(text)) + 100_000).toBeGreaterThan(taken)
})
