import { once } from 'node:events'
import { createServer, type IncomingMessage } from 'node:http'
import { connect, type AddressInfo } from 'node:net'
import { expect, onTestFinished, test } from 'vitest'
import { createMetrics } from '../runtime/metrics.ts'
import { fakeClock } from '../test/fake-clock.ts'
import { until } from '../test/until.ts'
import { createBodyDeadlines } from './body-deadline.ts'
import { createAdmissionMetrics } from './metrics.ts'

test.each([
  ['of an admission request has another deadline after each 64 KiB', '/mutate', 20],
  ['of another request has one deadline for all of it', 'other', 5],
])('a body %s', async (_, path, turns) => {
  const clock = fakeClock()
  const { expectBody } = createBodyDeadlines({ clock, metrics: createAdmissionMetrics(createMetrics()) })
  let received: IncomingMessage | undefined
  const server = createServer((request) => {
    received = request.resume()
    expectBody(request, path)
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  const client = connect((server.address() as AddressInfo).port, '127.0.0.1').on('error', () => {})
  onTestFinished(() => {
    client.destroy()
    server.close()
  })
  client.write('POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 10000000\r\n\r\n')
  await until(() => received !== undefined)
  let turn = 0
  for (; turn < 20 && received?.destroyed === false; turn++) {
    const before = received.socket.bytesRead
    client.write('x'.repeat(64 * 1024))
    await until(() => (received?.socket.bytesRead ?? 0) - before >= 64 * 1024)
    await clock.advance(250)
  }
  expect(turn).toBe(turns)
})
