import type { IncomingMessage } from 'node:http'
import type { Socket } from 'node:net'
import { joinChunks } from './joined-chunks.ts'

/** More than the head of a response has. */
const pieceBytes = 4096

/**
 * Lets a socket deliver in small pieces what Node reads at once, up to 64 KiB: Node parses the whole of what is delivered,
 * even after a listener has destroyed the socket, and thousands of interim responses or chunks fit into 64 KiB.
 * @param arrives is called with the size of each piece before it is parsed, and can destroy the socket. HTTP allows empty
 *   lines before a response, and zeros or spaces within one, without end: no other event tells of them
 * @returns lets the socket deliver the rest, and what follows, as it is read
 */
export function deliverPiecewise(socket: Socket, arrives: (bytes: number) => void = () => {}): () => void {
  let isPiecewise = true
  const push = socket.push.bind(socket)
  socket.push = (chunk: Buffer | null) => {
    if (chunk === null) return push(chunk)
    let acceptsMore = true
    for (let start = 0; start < chunk.length && !socket.destroyed;) {
      const end = isPiecewise ? start + pieceBytes : chunk.length
      const piece = chunk.subarray(start, end)
      if (isPiecewise && start === 0) arrives(piece.length)
      if (socket.destroyed) return false
      // A listener for the first piece may have taken over what arrives.
      acceptsMore = start === 0 ? push(piece) : socket.push(piece)
      start = end
    }
    return acceptsMore
  }
  return () => {
    isPiecewise = false
  }
}

/**
 * The cost of reading and buffering a chunk: a peer that sends single bytes must not cost a hundred times as much as
 * another one.
 */
export const costOf = (chunk: Buffer): number => Math.max(chunk.length, smallestCost)
const smallestCost = 1024

/**
 * Reads a response as text; undefined if it costs more than `maxCost`. Each chunk is counted as it arrives, because Node
 * buffers what is not read, and the one that exceeds the limit closes the connection. Throws the response's errors.
 */
export function textOf(response: IncomingMessage, maxCost: number): Promise<string | undefined> {
  const { promise, resolve, reject } = Promise.withResolvers<string | undefined>()
  const joined = joinChunks()
  let cost = 0
  response.on('data', (chunk: Buffer) => {
    // Node delivers the rest of what it has read even then.
    if (response.destroyed) return
    cost += costOf(chunk)
    if (cost <= maxCost) return joined.add(chunk)
    resolve(undefined)
    response.destroy()
  })
  // Until the first read, Node buffers what arrives.
  response.read(0)
  response.once('end', () => resolve(joined.text()))
  response.once('error', reject)
  response.once('close', () => reject(new Error('the connection was closed during the response')))
  return promise
}
