import { once } from 'node:events'
import type { RequestListener, ServerResponse } from 'node:http'
import type { Duplex } from 'node:stream'
import { text } from 'node:stream/consumers'
import { connect } from 'node:tls'
import { onTestFinished, expect, test } from 'vitest'
import { until } from '../test/until.ts'
import { systemClock } from './clock.ts'
import { refuseEarlyBytes } from './early-bytes.ts'
import { createGuardedServer } from './guarded-server.ts'
import { listen } from './listen.ts'

const limits = { pending: 8, pendingPerAddress: 8, burst: 8, perSecond: 1, proven: 8 }

/** A server, and a client that has done the handshake. */
async function setUp(respond: RequestListener = () => {}) {
  const guarded = createGuardedServer({
    name: 'localhost',
    minVersion: 'TLSv1.3',
    limits,
    clock: systemClock,
    respond,
  })
  const port = await listen(guarded.server, 0, '127.0.0.1')
  const client = connect({ port, host: '127.0.0.1', rejectUnauthorized: false }).on('error', () => {})
  onTestFinished(() => {
    client.destroy()
    guarded.server.close()
  })
  await once(client, 'secureConnect')
  return { ...guarded, client }
}

test.each([
  ['closes a connection that sends a second request before the first is authenticated', false, ''],
  ['reads further requests of a client that is authenticated', true, 'HTTP/1.1 200 OK'],
])('%s', async (_, isProven, end) => {
  const responses: ServerResponse[] = []
  const { client, prove } = await setUp((request, response) => {
    if (isProven) prove(request.socket)
    responses.push(response)
  })
  const received = text(client).catch(() => '')
  client.write('GET / HTTP/1.1\r\nhost: localhost\r\n\r\n'.repeat(3))
  await until(() => responses.length === (isProven ? 3 : 1))
  for (const response of responses) response.setHeader('connection', 'close').end()
  expect((await received).split('\r\n')[0]).toBe(end)
})

test.each(['content-length: 1', 'transfer-encoding: chunked', 'expect: x'])(
  'closes the connection of a client that sends a body, or an expectation, before it is authenticated (%s)',
  async (header) => {
    let requests = 0
    const { client } = await setUp(() => void requests++)
    const received = text(client).catch(() => '')
    client.write(`GET / HTTP/1.1\r\nhost: localhost\r\n${header}\r\n\r\n`)
    expect([await received, requests]).toEqual(['', 0])
  },
)

test.each([
  ['', 'host:\r\n'],
  [' without a Host', ''],
])('parses at most 4 KiB of requests%s before it closes the connection', async (_, header) => {
  let parsed = 0
  const { client, server } = await setUp()
  server.on('request', () => parsed++)
  const request = `GET / HTTP/1.1\r\n${header}\r\n`
  client.write(request.repeat(Math.floor(16_000 / request.length)))
  await once(client, 'close')
  expect([parsed > 1, parsed * request.length <= 4096 + request.length]).toEqual([true, true])
})

test('closes a connection whose client sends bytes behind an upgrade that fills a piece', async () => {
  const { client, server } = await setUp()
  let upgraded: Duplex | undefined
  server.on('upgrade', (_, socket, head) => {
    upgraded = socket.on('error', () => {})
    refuseEarlyBytes(socket, head)
  })
  const head = 'GET / HTTP/1.1\r\nconnection: upgrade\r\nupgrade: virtset\r\nx: '
  client.write(`${head.padEnd(4092, 'x')}\r\n\r\n${'y'.repeat(12_000)}`)
  // Before its deadline.
  await expect(until(() => upgraded?.destroyed, undefined, { deadlineMs: 5000 })).resolves.toBe(true)
})
