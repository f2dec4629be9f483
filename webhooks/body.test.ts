import { once } from 'node:events'
import { connect, constants, createServer } from 'node:http2'
import type { AddressInfo } from 'node:net'
import { Readable } from 'node:stream'
import { expect, test } from 'vitest'
import { readBody } from './body.ts'
import { createGate } from './gate.ts'

const kib = 1024
/** The body, how much of it was read, and how much of the limit it took. */
async function read(chunks: readonly string[], maxBytes = 64 * kib) {
  const gate = createGate({ requests: 1, bytes: 1024 * kib, responseBytes: 0 })
  const pass = gate.enter()
  if (pass === undefined) throw new Error('no place')
  let [count, held] = [0, 0]
  const payload = Readable.from(
    (function* () {
      for (const chunk of chunks) {
        count++
        yield Buffer.from(chunk)
      }
    })(),
    { highWaterMark: 1 },
  )
  const hold = (bytes: number) => {
    held += bytes
    return pass.hold(bytes)
  }
  const body = await readBody(payload, maxBytes, { ...pass, hold }).catch((error: unknown) => String(error))
  return { body, isWholeRead: count === chunks.length, held }
}

const times = (count: number, chunk: string) => Array.from({ length: count }, () => chunk)

test.each([
  ['a chunk of one byte', ['x'], 1 * kib],
  ['large chunks', times(2, 'x'.repeat(3000)), 12_000],
  ['a chunk of objects, which take more once they are parsed', ['{},'.repeat(1000)], 158_000],
  ['200 chunks of one byte', times(200, 'x'), 200 * kib],
])('%s: a chunk takes at least 1 KiB of the limit, and its heap', async (_, chunks, held) => {
  expect(await read(chunks)).toEqual({ body: chunks.join(''), isWholeRead: true, held })
})

test('a body that is too large is read to its end', async () => {
  const { body, isWholeRead } = await read(times(40, 'x'.repeat(2 * kib)))
  expect([body, isWholeRead]).toEqual(['BodyRejected: the body is too-large', true])
})

test('a body that costs much more than it has bytes is not read further', async () => {
  const { body, isWholeRead } = await read(times(1000, 'x'))
  expect([body, isWholeRead]).toEqual(['BodyRejected: the body is overloaded', false])
})

test.each([
  ['before its body has arrived', ''],
  ['in the middle of its body', '{"a":'],
])('a request that is aborted %s by HTTP/2 has no body', async (_, sent) => {
  const { promise: read, resolve } = Promise.withResolvers<string>()
  const pass = createGate({ requests: 1, bytes: 1024 * kib, responseBytes: 0 }).enter()
  if (pass === undefined) throw new Error('no place')
  const server = createServer((request) => resolve(readBody(request, kib, pass).catch(String)))
  server.listen(0)
  await once(server, 'listening')
  const session = connect(`http://localhost:${(server.address() as AddressInfo).port}`)
  const stream = session.request({ ':method': 'POST' }).on('error', () => {})
  if (sent !== '') stream.write(sent)
  await once(server, 'stream')
  stream.close(constants.NGHTTP2_CANCEL)
  expect(await read).toBe('MalformedBody: the request was aborted')
  session.close()
  server.close()
})
