import { once } from 'node:events'
import { createServer, type IncomingMessage, type RequestListener } from 'node:http'
import { createServer as createTlsServer } from 'node:https'
import type { AddressInfo } from 'node:net'
import { PassThrough } from 'node:stream'
import { afterEach, expect, test, vi } from 'vitest'
import { ApiError, ApiUnreachable } from '../runtime/api-error.ts'
import { createSelfSigned } from '../runtime/self-signed.ts'
import { attach, refusalText, stream } from './attachment.ts'

afterEach(() => void vi.useRealTimers())

const failureOf = (promise: Promise<unknown>): Promise<unknown> =>
  promise.then(
    () => undefined,
    (error: unknown) => error,
  )

/** Runs with a server that speaks TLS, as an API server does. */
async function withServer(
  answer: RequestListener,
  run: (access: Parameters<typeof stream>[0]) => Promise<void>,
): Promise<void> {
  const server = createTlsServer(createSelfSigned('test', Date.now()), answer).listen(0, '127.0.0.1')
  await once(server, 'listening')
  try {
    await run({
      server: `https://127.0.0.1:${(server.address() as AddressInfo).port}`,
      prove: async () => ({ headers: {}, tls: { rejectUnauthorized: false } }),
    })
  } finally {
    server.closeAllConnections()
    server.close()
  }
}

test('a session without credentials reports why, as requests do', async () => {
  const cause = new Error('the plugin failed')
  const access = { server: 'https://127.0.0.1:1', prove: () => Promise.reject(cause) }
  const receiver = { begin: () => {}, receive: () => undefined }
  for (const open of [attach, stream]) {
    await expect(open(access, '/apis', receiver)).rejects.toSatisfy(
      (error) => error instanceof ApiUnreachable && error.cause === cause,
    )
  }
})

test('a stream of a server without TLS, such as kubectl proxy', async () => {
  const server = createServer((_, response) => response.end('abc')).listen(0, '127.0.0.1')
  await once(server, 'listening')
  const access = {
    server: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    prove: async () => ({ headers: {}, tls: {} }),
  }
  const received: string[] = []
  const receive = (chunk: Buffer) => void received.push(chunk.toString())
  const { ended } = await stream(access, '/apis', { begin: () => {}, receive })
  expect([await ended, received]).toEqual([true, ['abc']])
  server.close()
})

test.each([
  ['stream', stream],
  ['WebSocket', attach],
])('a %s is below the path of the server', async (_, open) => {
  const asked: (string | undefined)[] = []
  const refuse: RequestListener = ({ url }, response) => {
    asked.push(url)
    response.writeHead(403).end('{"message":"no"}')
  }
  await withServer(refuse, async (access) => {
    const receiver = { begin: () => {}, receive: () => undefined }
    const below = { ...access, server: `${access.server}/k8s/clusters/c-x` }
    await expect(open(below, '/apis/a?b=c', receiver)).rejects.toBeInstanceOf(ApiError)
  })
  expect(asked).toEqual(['/k8s/clusters/c-x/apis/a?b=c'])
})

test.each([
  ['short', 'no permission', 'no permission'],
  ['longer than a Status', 'x'.repeat(2 * 1024 * 1024), 'Forbidden'],
])('the text of a refusal that is %s', async (_, body, message) => {
  const server = createServer().listen(0, '127.0.0.1')
  server.on('upgrade', (_request, socket) => {
    // The client closes the connection when it has read enough.
    socket.on('error', () => {})
    socket.end(`HTTP/1.1 403 Forbidden\r\ncontent-length: ${body.length}\r\n\r\n${body}`)
  })
  await once(server, 'listening')
  const access = {
    server: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    prove: async () => ({ headers: {}, tls: {} }),
  }
  const receiver = { begin: () => {}, receive: () => undefined }
  await expect(attach(access, '/apis', receiver)).rejects.toSatisfy(
    (error) => error instanceof ApiError && error.status.message === message,
  )
  server.close()
})

test.each<[string, RequestListener, boolean]>([
  ['that is complete', (_, response) => void response.end('abc'), true],
  [
    'whose connection is lost',
    (_, response) => {
      response.writeHead(200, { 'content-length': 1000 })
      response.write('abc', () => response.destroy())
    },
    false,
  ],
  ['that is silent for too long', (_, response) => void response.write('abc'), false],
])('the end of a stream %s', async (_, answer, expected) => {
  await withServer(answer, async (access) => {
    const receiver = { begin: () => {}, receive: () => undefined, silentMs: 200 }
    const { ended } = await stream(access, '/apis', receiver)
    expect(await ended).toBe(expected)
  })
})

test('a stream that waits for its receiver is not silent', async () => {
  // More than the buffers of a connection, so that the rest is sent only when the receiver goes on.
  const text = Buffer.alloc(16 * 1024 * 1024)
  await withServer(
    (_, response) => void response.end(text),
    async (access) => {
      let bytes = 0
      const receive = (chunk: Buffer) => {
        bytes += chunk.length
        return bytes === chunk.length ? new Promise<void>((resolve) => setTimeout(resolve, 600)) : undefined
      }
      const { ended } = await stream(access, '/apis', { begin: () => {}, receive, silentMs: 300 })
      expect([await ended, bytes]).toEqual([true, text.length])
    },
  )
})

test('a stream whose receiver fails throws its error, and ends', async () => {
  const closed = Promise.withResolvers<void>()
  await withServer(
    (_, response) => {
      response.once('close', () => closed.resolve())
      response.write('abc')
    },
    async (access) => {
      const receive = () => Promise.reject(new Error('too large'))
      const { ended } = await stream(access, '/apis', { begin: () => {}, receive })
      await expect(ended).rejects.toThrow('too large')
      await closed.promise
    },
  )
})

test('a stream that does not begin is given up', async () => {
  const asked = Promise.withResolvers<void>()
  await withServer(
    () => asked.resolve(),
    async (access) => {
      vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] })
      const opening = failureOf(stream(access, '/apis', { begin: () => {}, receive: () => undefined }))
      await asked.promise
      vi.advanceTimersByTime(35_000)
      expect(await opening).toEqual(new ApiUnreachable('GET /apis', { cause: new Error('no response within 35 s') }))
    },
  )
})

test('a refusal that does not end is given up', async () => {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] })
  const response = new PassThrough()
  response.write('{')
  const reading = failureOf(refusalText(response as unknown as IncomingMessage))
  vi.advanceTimersByTime(30_000)
  expect(await reading).toEqual(new Error('no response within 30 s'))
})
