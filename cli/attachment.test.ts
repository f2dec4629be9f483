import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { expect, test } from 'vitest'
import { ApiError, ApiUnreachable } from '../runtime/api-error.ts'
import { attach, stream } from './attachment.ts'

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
