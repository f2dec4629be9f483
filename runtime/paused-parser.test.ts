import { once } from 'node:events'
import type { RequestListener } from 'node:http'
import { createServer, type Server } from 'node:https'
import { text } from 'node:stream/consumers'
import { connect } from 'node:tls'
import { afterEach, expect, test } from 'vitest'
import { until } from '../test/until.ts'
import { systemClock } from './clock.ts'
import { createGuardedServer } from './guarded-server.ts'
import { listen } from './listen.ts'
import { surviveBackpressure } from './paused-parser.ts'
import { createSelfSigned } from './self-signed.ts'

const closing: (() => void)[] = []
afterEach(() => {
  for (const close of closing.splice(0).toReversed()) close()
})

const limits = { pending: 8, pendingPerAddress: 8, burst: 8, perSecond: 1, proven: 8 }

test.each<[string, (respond: RequestListener) => Server]>([
  [
    'a server',
    (respond) => {
      const server = createServer(createSelfSigned('localhost', Date.now()), respond)
      surviveBackpressure(server)
      return server
    },
  ],
  [
    'a guarded server',
    (respond) => {
      const { server, prove } = createGuardedServer({
        name: 'localhost',
        minVersion: 'TLSv1.3',
        limits,
        clock: systemClock,
        respond(request, response) {
          prove(request.socket)
          return respond(request, response)
        },
      })
      return server
    },
  ],
])(
  '%s responds to a request that arrives while the response to the previous one is not sent yet',
  async (_, create) => {
    let requests = 0
    const server = create((request, response) => {
      requests++
      // More than the kernel buffers.
      if (request.url === '/large') response.end(Buffer.alloc(32 * 1024 * 1024))
      else {
        void text(request).then(
          (body) => response.end(`read ${body.length}`),
          () => {},
        )
      }
    })
    const port = await listen(server, 0, '127.0.0.1')
    const client = connect({ port, host: '127.0.0.1', rejectUnauthorized: false }).on('error', () => {})
    closing.push(
      () => server.close(),
      () => client.destroy(),
    )
    await once(client, 'secureConnect')
    client.write('GET /large HTTP/1.1\r\nhost: localhost\r\n\r\n')
    await once(client, 'readable')
    // In several records of TLS, which the server decrypts at once.
    client.write(`POST / HTTP/1.1\r\nhost: localhost\r\ncontent-length: 60000\r\n\r\n${'x'.repeat(60_000)}`)
    await until(() => requests === 2)
    let end = ''
    client.on('data', (chunk: Buffer) => (end = (end + chunk.toString('latin1')).slice(-10)))
    client.resume()
    await until(() => end === 'read 60000' || client.destroyed)
    expect(end).toBe('read 60000')
  },
)
