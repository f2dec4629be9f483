/** A part of a list: each object as it arrives and, at the end, the list without its objects. */
export type ListPart = { readonly item: unknown } | { readonly list: unknown }

/** An object and a margin: etcd accepts 1.5 MiB, and characters can be escaped. */
const longestPartBytes = 16 * 1024 * 1024

const [quote, backslash] = [0x22, 0x5c]
const [openBrace, closeBrace, openBracket, closeBracket] = [0x7b, 0x7d, 0x5b, 0x5d]
/** The depth between the objects in `items`. */
const betweenItems = 2

/**
 * Parses the JSON of a list object by object, each with `parse`, so that only one of them is in memory at a time,
 * whatever their number and size. `items` may be any member: it is the last one of built-in kinds, and not of custom
 * resources. Throws SyntaxError for what is not JSON, and RangeError for a part that is too long.
 */
export async function* listParts(
  chunks: AsyncIterable<Uint8Array>,
  parse: (json: Buffer) => unknown,
  limitBytes = longestPartBytes,
): AsyncGenerator<ListPart> {
  const list = createBytes(limitBytes)
  const item = createBytes(limitBytes)
  let depth = 0
  let isInItems = false
  let isInString = false
  let isEscaped = false
  for await (const chunk of chunks) {
    // Where the bytes begin that are in no part yet.
    let from = 0
    for (let at = 0; at < chunk.length; at++) {
      if (isInString) {
        // Most bytes of a list are in strings.
        while (at < chunk.length && (isEscaped || chunk[at] !== quote)) {
          isEscaped = !isEscaped && chunk[at] === backslash
          at++
        }
        isInString = at >= chunk.length
        continue
      }
      const byte = chunk[at]
      if (byte === quote) isInString = true
      else if (byte === openBrace || byte === openBracket) {
        if (isInItems && depth === betweenItems) from = at
        depth++
        if (isInItems || depth !== betweenItems || byte !== openBracket) continue
        list.add(chunk.subarray(from, at + 1))
        from = at + 1
        isInItems = opensItems.test(list.read().toString('utf8'))
      } else if (byte === closeBrace || byte === closeBracket) {
        depth--
        if (isInItems && depth === betweenItems) {
          item.add(chunk.subarray(from, at + 1))
          yield { item: parse(item.take()) }
        } else if (isInItems && depth < betweenItems) {
          from = at
          isInItems = false
        }
      }
    }
    if (!isInItems) list.add(chunk.subarray(from))
    else if (depth > betweenItems) item.add(chunk.subarray(from))
  }
  yield { list: JSON.parse(list.take().toString('utf8')) }
}

const opensItems = /"items"\s*:\s*\[$/

/** Decoded and parsed as a whole: a character can span two chunks. */
function createBytes(limitBytes: number) {
  let held: Uint8Array[] = []
  let heldBytes = 0
  const read = () => Buffer.concat(held)
  return {
    read,
    add(bytes: Uint8Array) {
      held.push(bytes)
      heldBytes += bytes.length
      if (heldBytes > limitBytes) throw new RangeError(`a part of a list of more than ${limitBytes} bytes`)
    },
    take() {
      const bytes = read()
      held = []
      heldBytes = 0
      return bytes
    },
  }
}
