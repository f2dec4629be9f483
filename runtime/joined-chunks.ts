/**
 * What has arrived of a message. Each chunk is copied, so that a message takes about as much memory as it has bytes: TLS
 * delivers a Buffer for each record, which takes 235 to 600 bytes even for a single byte, and a small part of a record
 * keeps the whole record in memory.
 */
export interface JoinedChunks {
  /** The chunk can be changed afterwards. */
  add(chunk: Uint8Array): void
  /** Forgets what was added. */
  clear(): void
  /** All that was added, as text. */
  text(): string
  /** Bytes of memory: at most twice what was added, and at least `smallestBlock`. */
  allocated(): number
}

const smallestBlock = 1024
/** Until this size, a block is as large as all before it. */
const largestBlock = 64 * 1024

export function joinChunks(): JoinedChunks {
  const blocks: Buffer[] = []
  let allocated = 0
  let added = 0
  const addBlock = (): Buffer => {
    // Not from Node's pool, of which a small block would keep the whole.
    const block = Buffer.allocUnsafeSlow(Math.min(Math.max(allocated, smallestBlock), largestBlock))
    blocks.push(block)
    allocated += block.length
    return block
  }
  return {
    add(chunk) {
      for (let start = 0; start < chunk.length;) {
        const block = (added < allocated ? blocks.at(-1) : undefined) ?? addBlock()
        const free = allocated - added
        const part = chunk.subarray(start, start + free)
        block.set(part, block.length - free)
        start += part.length
        added += part.length
      }
    },
    clear() {
      blocks.length = allocated = added = 0
    },
    text: () => Buffer.concat(blocks, added).toString('utf8'),
    allocated: () => allocated,
  }
}
