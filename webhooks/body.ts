import { heapCostOf } from '../api/heap-cost.ts'
import { joinChunks } from '../runtime/joined-chunks.ts'
import { costOf } from '../runtime/untrusted-response.ts'
import type { Pass } from './gate.ts'
import { streamOf } from './http2.ts'

/** The API server sends at most two objects of 3 MiB and a 1 MiB envelope. */
export const maxBodyBytes = 7 * 1024 * 1024

/** The body is too large, or too many bodies are being read. */
export class BodyRejected extends Error {
  override readonly name = 'BodyRejected'
  readonly reason: 'too-large' | 'overloaded'

  constructor(reason: BodyRejected['reason']) {
    super(`the body is ${reason}`)
    this.reason = reason
  }
}

/** 256 chunks of one byte. Of the chunks that Go writes by itself, few are below 1 KiB. */
const maxSurcharge = 256 * 1024

/**
 * Reads a body as text. Each chunk counts with the heap that it takes once it is parsed, and at least 1 KiB, because a
 * user decides in which pieces the API server forwards a body. A rejected body is still read to its end and dropped,
 * because a client may miss a response that arrives while it sends. The caller limits the time. But one that costs much
 * more than it has bytes is not read further, and its connection, or stream, is closed: each record takes 4 µs of CPU.
 *
 * @throws BodyRejected, and MalformedBody if it was aborted by HTTP/2; by HTTP/1.1, Node throws
 */
export async function readBody(payload: AsyncIterable<unknown>, maxBytes: number, pass: Pass): Promise<string> {
  const joined = joinChunks()
  let [size, cost] = [0, 0]
  let rejection: BodyRejected['reason'] | undefined
  for await (const chunk of payload) {
    if (!Buffer.isBuffer(chunk)) continue
    size += chunk.length
    cost += costOf(chunk)
    // Ending the loop destroys the request.
    if (cost > 2 * size + maxSurcharge) throw new BodyRejected('overloaded')
    if (size > maxBytes) rejection = 'too-large'
    else if (rejection === undefined && !pass.hold(Math.max(costOf(chunk), heapCostOf(chunk)))) rejection = 'overloaded'
    if (rejection === undefined) joined.add(chunk)
    else joined.clear()
  }
  if (!(await isWhole(payload))) throw new MalformedBody('the request was aborted')
  if (rejection !== undefined) throw new BodyRejected(rejection)
  return joined.text()
}

/** By HTTP/2, the body of an aborted request ends as a whole one does, and its stream is closed only then. */
async function isWhole(payload: object): Promise<boolean> {
  const stream = streamOf(payload)
  if (stream === undefined || stream.endAfterHeaders) return true
  await new Promise(setImmediate)
  return !stream.closed
}

/** @throws MalformedBody */
export function parseBody(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch (cause) {
    throw new MalformedBody('the body is not valid JSON', { cause })
  }
}

/** The body is not JSON. */
export class MalformedBody extends Error {
  override readonly name = 'MalformedBody'
}
