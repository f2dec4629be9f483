import { once } from 'node:events'
import { mkdtemp, rm } from 'node:fs/promises'
import { ClientRequest, IncomingMessage } from 'node:http'
import { createServer, type Server, type Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, onTestFinished, test, vi } from 'vitest'
import { listenAsLauncher } from '../test/fake-launcher.ts'
import { fakeClock } from '../test/fake-clock.ts'
import { until } from '../test/until.ts'
import { openLauncherSession } from './launcher-session.ts'

const podUID = '0b9dd0ab-6a4a-4bbb-9f6f-0d2f7a1a6c11'
const target = { kind: 'console', tailBytes: 5, isFollowing: true } as const
const accepted = 'HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: virtset\r\n'
const neverEnds = 'HTTP/1.1 409 Refused\r\nTransfer-Encoding: chunked\r\n\r\n'
const refused = (body: string) => `HTTP/1.1 409 Refused\r\nContent-Length: ${body.length}\r\n\r\n${body}`

let kubeletRoot: string
let server: Server
let sockets: Socket[]
let requests: string[]

beforeEach(async () => {
  kubeletRoot = await mkdtemp(join(tmpdir(), 'kubelet-'))
  sockets = []
  requests = []
})
afterEach(async () => {
  for (const socket of sockets) socket.destroy()
  server?.close()
  await rm(kubeletRoot, { recursive: true })
})

/** Opens a session with a launcher that acts like this once it has read the request. */
async function open(act: (socket: Socket) => void, clock = fakeClock()) {
  server = createServer((socket) => {
    sockets.push(socket)
    socket.on('error', () => {})
    socket.once('data', (head) => {
      requests.push(head.toString().split('\r\n', 1)[0] ?? '')
      act(socket)
    })
  })
  await listenAsLauncher(kubeletRoot, podUID, server)
  return openLauncherSession(kubeletRoot, podUID, target, clock)
}

test('has the position and the first bytes, which can arrive with the head', async () => {
  const session = await open((socket) => socket.write(`${accepted}virtset-position: 0123abcd.7\r\n\r\nlogin: `))
  expect(session.position).toEqual({ epoch: '0123abcd', offset: 7 })
  const [chunk] = await once(session.socket, 'data')
  expect(String(chunk)).toBe('login: ')
  expect(requests).toEqual(['GET /console?tail=5 HTTP/1.1'])
  session.socket.destroy()
})

test('a position that is malformed is ignored', async () => {
  const session = await open((socket) => socket.write(`${accepted}virtset-position: x\r\n\r\n`))
  expect(session.position).toBeUndefined()
  session.socket.destroy()
})

test('a refusal has the reason of the launcher', async () => {
  const body = JSON.stringify({ error: { reason: 'NotReady', message: 'the guest does not run yet' } })
  await expect(open((socket) => socket.end(refused(body)))).rejects.toMatchObject({
    name: 'LauncherRefusal',
    reason: 'NotReady',
    message: 'the guest does not run yet',
  })
})

test('without a socket the launcher is absent', async () => {
  await expect(openLauncherSession(kubeletRoot, podUID, target, fakeClock())).rejects.toMatchObject({
    name: 'LauncherAbsent',
  })
})

test.each<[string, (socket: Socket) => void, string]>([
  ['closes at once', (socket) => socket.destroy(), 'LauncherUnreachable'],
  ['sends bytes before the 101', (socket) => socket.write(`xxxx${accepted}\r\n`), 'InvalidLauncherResponse'],
  ['sends endless empty lines', (socket) => flood(socket, '', '\r\n'.repeat(1000)), 'InvalidLauncherResponse'],
  ['never ends a refusal', (socket) => flood(socket, neverEnds, '0'.repeat(1000)), 'InvalidLauncherResponse'],
  ['sends endless headers', (socket) => flood(socket, `${accepted}`, 'a: b\r\n'), 'InvalidLauncherResponse'],
  [
    'sends endless interim responses',
    (socket) => flood(socket, '', 'HTTP/1.1 103 Hints\r\n\r\n'),
    'InvalidLauncherResponse',
  ],
  [
    'sends a 101 without Upgrade',
    (socket) => socket.write('HTTP/1.1 101 Switching\r\n\r\nx'),
    'InvalidLauncherResponse',
  ],
  [
    'switches to another protocol',
    (socket) => socket.write(accepted.replace('virtset', 'h2c') + '\r\n'),
    'InvalidLauncherResponse',
  ],
  [
    'sends an endless refusal',
    (socket) => flood(socket, 'HTTP/1.1 409 Refused\r\n\r\n', 'x'.repeat(1000)),
    'InvalidLauncherResponse',
  ],
  ['refuses without a reason', (socket) => socket.end(refused('{}')), 'InvalidLauncherResponse'],
  [
    'responds with success',
    (socket) => socket.end('HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}'),
    'InvalidLauncherResponse',
  ],
])('a launcher that %s is disconnected', async (_, act, name) => {
  await expect(open(act)).rejects.toMatchObject({ name })
  await until(() => sockets.every((socket) => socket.destroyed))
})

test('a launcher that never answers is disconnected after a deadline', async () => {
  const clock = fakeClock()
  const opening = open(() => {}, clock)
  opening.catch(() => {})
  await until(() => requests.length === 1)
  await clock.advance(5000)
  await expect(opening).rejects.toMatchObject({ name: 'LauncherUnreachable', message: /within 5 s/ })
})

test.each([
  ['interim responses', 'HTTP/1.1 103 \r\n\r\n', ''],
  ['a refusal of single bytes', 'HTTP/1.1 409 Refused\r\nTransfer-Encoding: chunked\r\n\r\n', '1\r\nx\r\n'],
])('no more than a piece of %s without end is parsed', async (_, head, piece) => {
  const emit = vi.spyOn(ClientRequest.prototype, 'emit')
  const push = vi.spyOn(IncomingMessage.prototype, 'push')
  onTestFinished(() => void vi.restoreAllMocks())
  await expect(open((socket) => flood(socket, head, (piece || head).repeat(10_000)))).rejects.toMatchObject({
    name: 'InvalidLauncherResponse',
  })
  // As many as fit into 4 KiB, and the one that is cut.
  expect(emit.mock.calls.filter(([event]) => event === 'information').length).toBeLessThan(4096 / 17 + 1)
  expect(push.mock.calls.length).toBeLessThan(4096 / 6 + 1)
})

test('what arrives with the 101 is delivered whole', async () => {
  const output = 'x'.repeat(60_000)
  const session = await open((socket) => socket.write(`${accepted}\r\n${output}`))
  const chunks: Buffer[] = []
  let bytes = 0
  session.socket.on('data', (chunk: Buffer) => {
    chunks.push(chunk)
    bytes += chunk.length
  })
  await until(() => bytes === output.length)
  expect(String(Buffer.concat(chunks))).toBe(output)
  session.socket.destroy()
})

function flood(socket: Socket, head: string, piece: string): void {
  socket.write(head)
  const more = () => {
    while (!socket.destroyed && socket.write(piece)) continue
  }
  socket.on('drain', more)
  more()
}
