/** The longest line of a watch: two objects of etcd's 1.5 MiB limit, escaped, and a margin. */
const longestLineBytes = 16 * 1024 * 1024

/**
 * Parses a stream of bytes with one JSON value per line. Lines are split as bytes, before `parse` decodes them: a
 * character can span two chunks. An incomplete last line is dropped: the sender was interrupted. Throws what `parse`
 * throws, such as SyntaxError for a line that is not JSON.
 */
export async function* jsonLines(
  chunks: AsyncIterable<Uint8Array>,
  parse: (line: Buffer) => unknown,
  limitBytes = longestLineBytes,
): AsyncGenerator<unknown> {
  let held: Uint8Array[] = []
  let heldBytes = 0
  for await (const chunk of chunks) {
    let rest = chunk
    for (let end = rest.indexOf(newline); end >= 0; end = rest.indexOf(newline)) {
      const line = Buffer.concat([...held, rest.subarray(0, end)])
      rest = rest.subarray(end + 1)
      held = []
      heldBytes = 0
      if (line.length > limitBytes) throw new RangeError(`a line of more than ${limitBytes} bytes`)
      if (line.some(isNoSpace)) yield parse(line)
    }
    if (rest.length === 0) continue
    held.push(rest)
    heldBytes += rest.length
    if (heldBytes > limitBytes) throw new RangeError(`a line of more than ${limitBytes} bytes`)
  }
}

const newline = 0x0a
const isNoSpace = (byte: number): boolean => byte > 0x20
