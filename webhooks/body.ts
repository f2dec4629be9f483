import type { Pass } from './gate.ts'

/** The body was rejected. */
export class BodyRejected extends Error {
  override readonly name = 'BodyRejected'
  readonly reason: 'too-large' | 'overloaded'

  constructor(reason: BodyRejected['reason']) {
    super(`the body is ${reason}`)
    this.reason = reason
  }
}

/**
 * Reads a body as text. A rejected body is still read to its end and dropped, because a client may miss a response that
 * arrives while it sends. The caller limits the time.
 *
 * @throws BodyRejected
 */
export async function readBody(payload: AsyncIterable<unknown>, maxBytes: number, pass: Pass): Promise<string> {
  let chunks: Buffer[] = []
  let size = 0
  let rejection: BodyRejected['reason'] | undefined
  for await (const chunk of payload) {
    if (!Buffer.isBuffer(chunk)) continue
    size += chunk.length
    if (size > maxBytes) rejection = 'too-large'
    else if (rejection === undefined && !pass.hold(chunk.length)) rejection = 'overloaded'
    if (rejection === undefined) chunks.push(chunk)
    else chunks = []
  }
  if (rejection !== undefined) throw new BodyRejected(rejection)
  return Buffer.concat(chunks).toString('utf8')
}
