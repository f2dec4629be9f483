import type { Pass } from './gate.ts'

/** Why a body was not kept. */
export class BodyRejected extends Error {
  override readonly name = 'BodyRejected'
  readonly reason: 'too-large' | 'overloaded'

  constructor(reason: BodyRejected['reason']) {
    super(`the body is ${reason}`)
    this.reason = reason
  }
}

/**
 * A body as text. One that must not be kept is read to its end all the same, without keeping it: a client that is answered while it sends may never see the
 * answer. The caller bounds the time.
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
