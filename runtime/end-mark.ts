/**
 * The end of a log is marked, because a process that is killed ends its connections as an orderly one does: only the
 * mark tells the end of the log from the end of its launcher, its handler, or a connection between them. The byte 0xff,
 * which no UTF-8 text has, is sent twice within the log; 0xff 0x00 is its end.
 */
const escape = 0xff
const end = 0x00

export const endMark = Buffer.from([escape, end])

/** A part of a log as it is sent. */
export function escaped(chunk: Buffer): Buffer {
  if (!chunk.includes(escape)) return chunk
  const result = Buffer.alloc(2 * chunk.length)
  let length = 0
  for (const byte of chunk) {
    result[length++] = byte
    if (byte === escape) result[length++] = escape
  }
  return result.subarray(0, length)
}

/** Reads a log of which the end is marked. */
export class MarkedLog {
  #isEscaped = false
  #isWhole = false
  #isMalformed = false

  /** Whether the end has arrived, and nothing after it. */
  get isWhole(): boolean {
    return this.#isWhole && !this.#isMalformed
  }

  /** The part of the log in a chunk, which is changed. */
  read(chunk: Buffer): Buffer {
    if (!this.#isEscaped && !this.#isWhole && !chunk.includes(escape)) return chunk
    let length = 0
    for (const byte of chunk) {
      if (this.#isWhole) this.#isMalformed = true
      else if (!this.#isEscaped) {
        if (byte === escape) this.#isEscaped = true
        else chunk[length++] = byte
      } else {
        this.#isEscaped = false
        if (byte === escape) chunk[length++] = byte
        else if (byte === end) this.#isWhole = true
        else this.#isMalformed = true
      }
    }
    return chunk.subarray(0, length)
  }
}
