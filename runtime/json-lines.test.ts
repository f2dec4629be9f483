import * as fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { jsonLines } from './json-lines.ts'
import { parserOf } from './partial-json.ts'

async function* pieces(bytes: Uint8Array, size: number) {
  for (let at = 0; at < bytes.length; at += size) yield bytes.subarray(at, at + size)
}

const readAll = async (text: string, size: number, limit?: number) => {
  const values: unknown[] = []
  for await (const value of jsonLines(pieces(Buffer.from(text), size), parserOf(true), limit)) values.push(value)
  return values
}

describe('JSON lines', () => {
  it('returns the values, however they are split into chunks', async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(fc.jsonValue()), fc.integer({ min: 1, max: 9 }), async (values, size) => {
        const text = values.map((value) => `${JSON.stringify(value)}\n`).join('')
        expect(await readAll(text, size)).toEqual(values.map((value) => JSON.parse(JSON.stringify(value))))
      }),
    )
  })

  it.each([
    ['drops an incomplete last line', '{"a":1}\n{"b"', [{ a: 1 }]],
    ['skips empty lines', '\n{"a":1}\r\n\n', [{ a: 1 }]],
    ['returns nothing for no input', '', []],
  ])('%s', async (_name, text, values) => {
    expect(await readAll(text, 3)).toEqual(values)
  })

  it('throws for a line that is not JSON', async () => {
    await expect(readAll('no\n', 10)).rejects.toBeInstanceOf(SyntaxError)
  })

  it.each([1, 100])('throws for a line over the limit, complete or not, in chunks of %d', async (size) => {
    await expect(readAll(`"${'x'.repeat(50)}"\n`, size, 20)).rejects.toBeInstanceOf(RangeError)
    await expect(readAll(`"${'x'.repeat(50)}`, size, 20)).rejects.toBeInstanceOf(RangeError)
  })
})
