import { isList } from './yaml.ts'

const [quote, backslash, comma, colon] = [0x22, 0x5c, 0x2c, 0x3a]
const [openBrace, closeBrace, openBracket, closeBracket] = [0x7b, 0x7d, 0x5b, 0x5d]
const blanks: ReadonlySet<number | undefined> = new Set([0x20, 0x09, 0x0a, 0x0d])
const itemsKey = Buffer.from('"items"')

/**
 * Splits a JSON List into its items without parsing them, so that the caller can parse and release one at a time: ten
 * thousand VMs parsed at once need too much memory. An item may still be invalid JSON.
 * @param bytes UTF-8
 * @returns each item as a slice of `bytes`; undefined if the text is not a JSON List, or has items that are not objects
 */
export function jsonListItems(bytes: Buffer): readonly Buffer[] | undefined {
  const start = startOfItems(bytes)
  if (start === undefined) return undefined
  const items: Buffer[] = []
  let at = afterBlanks(bytes, start + 1)
  while (bytes[at] === openBrace) {
    const end = endOf(bytes, at)
    items.push(bytes.subarray(at, end))
    at = afterBlanks(bytes, end)
    if (bytes[at] !== comma) break
    at = afterBlanks(bytes, at + 1)
    if (bytes[at] !== openBrace) return undefined
  }
  if (bytes[at] !== closeBracket) return undefined
  // The placeholder is at `items[0]` only if no second `items` key follows.
  const around = `${bytes.toString('utf8', 0, start)}[null]${bytes.toString('utf8', at + 1)}`
  try {
    const list: unknown = JSON.parse(around)
    return isList(list) && list.items[0] === null ? items : undefined
  } catch {
    return undefined
  }
}

/** The position of the bracket of the first `"items": [` in the outermost object. */
function startOfItems(bytes: Buffer): number | undefined {
  let depth = 0
  for (let at = afterBlanks(bytes, 0); at < bytes.length; at++) {
    const byte = bytes[at]
    if (byte === openBrace || byte === openBracket) depth++
    else if (byte === closeBrace || byte === closeBracket) depth--
    else if (byte === quote) {
      const end = endOfText(bytes, at)
      const value = depth === 1 && bytes.subarray(at, end).equals(itemsKey) ? valueAfter(bytes, end) : undefined
      if (value !== undefined && bytes[value] === openBracket) return value
      at = end - 1
    }
    if (depth === 0) return undefined
  }
  return undefined
}

/** The position of the value of the key that ends at `end`; undefined if no colon follows. */
function valueAfter(bytes: Buffer, end: number): number | undefined {
  const at = afterBlanks(bytes, end)
  return bytes[at] === colon ? afterBlanks(bytes, at + 1) : undefined
}

/** The position after the object that begins at `start`, or the end of the text if the object is not closed. */
function endOf(bytes: Buffer, start: number): number {
  let depth = 0
  for (let at = start; at < bytes.length; at++) {
    const byte = bytes[at]
    if (byte === quote) at = endOfText(bytes, at) - 1
    else if (byte === openBrace || byte === openBracket) depth++
    else if ((byte === closeBrace || byte === closeBracket) && --depth === 0) return at + 1
  }
  return bytes.length
}

/** The position after the string whose opening quote is at `start`. */
function endOfText(bytes: Buffer, start: number): number {
  let at = start + 1
  while (at < bytes.length && bytes[at] !== quote) at += bytes[at] === backslash ? 2 : 1
  return at + 1
}

function afterBlanks(bytes: Buffer, from: number): number {
  let at = from
  while (blanks.has(bytes[at])) at++
  return at
}
