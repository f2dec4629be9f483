import { once } from 'node:events'
import { connect, createServer, type TLSSocket } from 'node:tls'
import { expect, onTestFinished, test } from 'vitest'
import { fakeClock } from '../test/fake-clock.ts'
import { keyUpdateCipher, keyUpdates } from '../test/key-updates.ts'
import { dial } from '../test/records.ts'
import { until } from '../test/until.ts'
import { listen } from './listen.ts'
import { createSelfSigned } from './self-signed.ts'
import { transportOf } from './transport.ts'
import { createUndeliveredLimit } from './undelivered-limit.ts'

async function start() {
  const clock = fakeClock()
  const server = createServer(createSelfSigned('localhost', Date.now()))
  const arrived = once(server, 'secureConnection')
  const wire = dial(await listen(server, 0, '127.0.0.1'))
  const client = connect({ socket: wire, rejectUnauthorized: false, ciphers: keyUpdateCipher }).on('error', () => {})
  let secret = ''
  let sent = 0
  client.on('keylog', (line) => {
    if (line.toString().startsWith('CLIENT_TRAFFIC_SECRET_0 ')) secret = line.toString()
  })
  const [socket]: TLSSocket[] = await arrived
  if (socket === undefined) throw new Error('no connection')
  onTestFinished(() => {
    for (const one of [client, socket]) one.destroy()
    server.close()
  })
  const problems: string[] = []
  createUndeliveredLimit(clock)(socket, (problem) => void problems.push(problem))
  return {
    clock,
    socket,
    problems,
    sendEach: (text: string) => {
      sent += text.length
      return wire.sendEach(client, text)
    },
    sendKeyUpdates: (count: number) => wire.write(keyUpdates(secret, sent, count)),
  }
}

test('a peer that sends many messages which deliver nothing is disconnected', async () => {
  const { clock, socket, problems, sendKeyUpdates } = await start()
  const failed = once(socket, 'error')
  sendKeyUpdates(3000)
  await until(() => transportOf(socket).bytesRead > 3000 * 27)
  await clock.advance(1000)
  expect(String(await failed)).toMatch(/it sent \d{5} bytes that contained 0/)
  await until(() => problems.length > 0)
  expect(problems).toEqual([expect.stringMatching(/^it sent \d{5} bytes that contained 0$/)])
  expect(clock.pending()).toBe(0)
})

test('it is also noticed that they were sent on a connection that is closed meanwhile', async () => {
  const { socket, problems, sendKeyUpdates } = await start()
  sendKeyUpdates(3000)
  await until(() => transportOf(socket).bytesRead > 3000 * 27)
  socket.destroy()
  await until(() => problems.length > 0)
  expect(problems).toEqual([expect.stringMatching(/^it sent \d{5} bytes that contained 0$/)])
})

test.each([
  ['that sends a few of them', 'a', 900],
  ['whose bytes all have a record of their own', 'x'.repeat(2000), 0],
])('a peer %s remains connected', async (_, text, updates) => {
  const { clock, socket, sendEach, sendKeyUpdates } = await start()
  let received = ''
  socket.on('data', (chunk: Buffer) => (received += chunk.toString()))
  await sendEach(text)
  await until(() => received === text)
  sendKeyUpdates(updates)
  await until(() => transportOf(socket).bytesRead > text.length * 23 + updates * 27)
  await clock.advance(1000)
  expect(socket.destroyed).toBe(false)
})
