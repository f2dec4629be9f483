import { joinChunks } from './joined-chunks.ts'

/** Reads a stream as text; undefined if it has more bytes. Throws the stream's errors. */
export async function boundedText(stream: AsyncIterable<unknown>, maxBytes: number): Promise<string | undefined> {
  const joined = joinChunks()
  let bytes = 0
  for await (const chunk of stream) {
    if (!Buffer.isBuffer(chunk)) continue
    bytes += chunk.length
    if (bytes > maxBytes) return undefined
    joined.add(chunk)
  }
  return joined.text()
}
