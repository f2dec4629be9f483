import { duplexPair } from 'node:stream'
import { expect, test } from 'vitest'
import { until } from '../test/until.ts'
import { refuseEarlyBytes } from './early-bytes.ts'

const nothing = Buffer.alloc(0)

test('what a client sends before it is accepted closes its connection, and is not stored', async () => {
  const [socket, client] = duplexPair()
  refuseEarlyBytes(socket, nothing)
  client.write('x')
  await until(() => socket.destroyed)
  expect(socket.readableLength).toBe(0)
})

test('what has arrived with the request closes the connection', () => {
  const [socket] = duplexPair()
  refuseEarlyBytes(socket, Buffer.from('x'))
  expect(socket.destroyed).toBe(true)
})

test('what an accepted client sends is delivered', async () => {
  const [socket, client] = duplexPair()
  refuseEarlyBytes(socket, nothing)()
  client.end('hello')
  expect(String((await socket.toArray())[0])).toBe('hello')
  expect(socket.readableEnded).toBe(true)
})

test('the end of a client closes nothing', async () => {
  const [socket, client] = duplexPair()
  refuseEarlyBytes(socket, nothing)
  client.end()
  expect([await socket.toArray(), socket.readableEnded]).toEqual([[], true])
})
