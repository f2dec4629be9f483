import { pbkdf2 } from 'node:crypto'
import { constants } from 'node:fs'
import { mkdir, mkdtemp, open, rm } from 'node:fs/promises'
import { createServer, IncomingMessage, Server, type RequestListener, type ServerResponse } from 'node:http'
import { createServer as createTCPServer, type Server as TCPServer, type Socket } from 'node:net'
import { once } from 'node:events'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { afterEach, beforeEach, describe, expect, onTestFinished, test, vi } from 'vitest'
import {
  InvalidLauncherResponse,
  heartbeatIntervalMs,
  maxResponseBytes,
  type DomainReport,
} from '../runtime/launcher-api.ts'
import { fakeClock } from '../test/fake-clock.ts'
import { until } from '../test/until.ts'
import { createBucket } from '../runtime/bucket.ts'
import type { Clock } from '../runtime/clock.ts'
import { createFairLimit } from '../runtime/fair-limit.ts'
import {
  LauncherAbsent,
  LauncherRefusal,
  LauncherUnreachable,
  launcherOf,
  type LauncherEvent,
  type LauncherLimits,
} from './launcher.ts'
import { pathOf } from './socket.ts'

const uid = '0f0e0d0c-0b0a-4908-8706-050403020100'
const report: DomainReport = { vmUID: 'vm-1', phase: 'Running', reason: 'booted', observedAt: '2026-01-02T03:04:05Z' }

let root: string
let server: TCPServer | undefined

beforeEach(async () => {
  root = await mkdtemp(join(tmpdir(), 'kubelet-'))
})

afterEach(async () => {
  if (server instanceof Server) server.closeAllConnections()
  server?.close()
  server = undefined
  await rm(root, { recursive: true })
})

async function serve(answer: RequestListener | TCPServer): Promise<void> {
  const directory = join(root, 'pods', uid, 'volumes/kubernetes.io~empty-dir/sockets')
  await mkdir(directory, { recursive: true })
  const handle = await open(directory, constants.O_DIRECTORY)
  server = (typeof answer === 'function' ? createServer(answer) : answer).listen(`${pathOf(handle)}/launcher.sock`)
  await once(server, 'listening')
  await handle.close()
}

const heldUpTo = (bytes: number): LauncherLimits['hold'] => {
  const pending = createFairLimit(bytes)
  return (end) => pending.hold('default', end)
}
const none = fakeClock()
const limits: LauncherLimits = {
  deadlineMs: 10_000,
  responses: createBucket(0, Infinity, none),
  events: createBucket(0, Infinity, none),
  hold: heldUpTo(Infinity),
}
const launcher = (more: Partial<LauncherLimits> = {}, clock?: Clock) =>
  launcherOf(root, uid, { ...limits, ...more }, clock)
const forever = new AbortController().signal

test('uses the methods and paths of the contract', async () => {
  const asked: string[] = []
  await serve((request, response) => {
    let body = ''
    request
      .on('data', (chunk) => (body += chunk))
      .on('end', () => {
        asked.push(`${request.method} ${request.url} ${body}`.trim())
        response.end(JSON.stringify(request.method === 'PUT' ? { domain: report } : report))
      })
  })
  const vm = {
    apiVersion: 'virtset.io/v1alpha1',
    kind: 'VirtualMachine',
    metadata: { name: 'vm', namespace: 'default', uid: 'vm-1' },
    spec: { domain: {} },
  } as const
  const labels = { app: 'of no interest' }

  expect(await launcher().put({ ...vm, metadata: { ...vm.metadata, labels }, status: {} })).toEqual(report)
  expect(await launcher().report()).toEqual(report)
  await launcher().shutdown(7)
  await launcher().final()

  expect(asked).toEqual([
    `PUT /vm ${JSON.stringify(vm)}`,
    'GET /domain',
    'POST /shutdown {"gracePeriodSeconds":7}',
    'POST /final',
  ])
})

test('of a large report, only what a status shows is kept', async () => {
  const list = Array.from({ length: 8000 }, () => ({}))
  const drifts = Array.from({ length: 20 }, (_, index) => ({
    field: `f${index}`,
    spec: 'x'.repeat(20_000),
    libvirt: 1,
  }))
  const large = {
    domain: { list },
    specDrift: [{ field: 'memory', libvirt: list }, ...drifts],
    message: 'x'.repeat(60_000),
  }
  await serve((_, response) => void response.end(JSON.stringify({ ...report, ...large })))
  const kept = await launcher().report()
  expect([kept.domain, kept.specDrift?.length, kept.specDrift?.[1]?.libvirt]).toEqual([undefined, 21, 1])
  expect(JSON.stringify(kept).length).toBeLessThan(12_000)
})

const chunked = 'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n'

function flood(socket: Socket, head: string, piece: string): void {
  socket.on('error', () => {}).write(head)
  const pieces = piece.repeat(20_000)
  const more = () => {
    while (!socket.destroyed && socket.write(pieces)) continue
  }
  socket.on('drain', more)
  more()
}

const otherProtocol = 'HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n'

const failures: [string, RequestListener | undefined, new (...words: never[]) => Error][] = [
  ['is not there', undefined, LauncherAbsent],
  ['hangs up', (request) => request.destroy(), LauncherUnreachable],
  [
    'hangs up in the middle',
    (_, response) => void response.write('{"vm', () => response.destroy()),
    LauncherUnreachable,
  ],
  ['sends no JSON', (_, response) => void response.end('<html>'), InvalidLauncherResponse],
  ['sends another shape', (_, response) => void response.end('{"phase":7}'), InvalidLauncherResponse],
  [
    'never stops sending',
    (_, response) => void response.end('"'.padEnd(maxResponseBytes + 2)),
    InvalidLauncherResponse,
  ],
  [
    'sends too many values',
    (_, response) => void response.end(`[${'{},'.repeat(300_000)}{}]`),
    InvalidLauncherResponse,
  ],
  [
    'sends byte by byte',
    ({ socket }) => {
      socket.write('HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n')
      socket.end(`${'1\r\n \r\n'.repeat(maxResponseBytes / 1000)}0\r\n\r\n`)
    },
    InvalidLauncherResponse,
  ],
  ['sends no HTTP', ({ socket }) => void socket.write('SSH-2.0-OpenSSH\r\n'), InvalidLauncherResponse],
  [
    'sends interim responses',
    ({ socket }) => void socket.write('HTTP/1.1 102 Processing\r\n\r\n'.repeat(1000)),
    InvalidLauncherResponse,
  ],
  ['sends empty lines without end', ({ socket }) => flood(socket, '', '\r\n'), InvalidLauncherResponse],
  ['never ends the size of a chunk', ({ socket }) => flood(socket, chunked, '0'), InvalidLauncherResponse],
  ['never ends a trailer', ({ socket }) => flood(socket, `${chunked}0\r\na:`, ' '), InvalidLauncherResponse],
  ['changes the protocol', ({ socket }) => void socket.write(otherProtocol), LauncherUnreachable],
  [
    'refuses',
    (_, response) => void response.writeHead(422).end('{"error":{"reason":"StartFailed","message":"no disk"}}'),
    LauncherRefusal,
  ],
]

test.each(failures)('a launcher that %s', async (_, answer, expected) => {
  if (answer !== undefined) await serve(answer)
  await expect(launcher().report()).rejects.toThrow(expected)
})

test('a launcher that was killed is reported with the same message each time', async () => {
  await serve(() => {})
  server?.close()
  const other = await open(root, constants.O_DIRECTORY)
  const first = await launcher().report().catch(String)
  await other.close()
  expect([first, await launcher().report().catch(String)]).toEqual([
    'LauncherUnreachable: could not reach the launcher: connect ECONNREFUSED',
    'LauncherUnreachable: could not reach the launcher: connect ECONNREFUSED',
  ])
})

test.each<[string, RequestListener]>([
  ['does not respond', () => {}],
  ['sends half an answer', (_, response) => void response.write('{"vm')],
])('a launcher that %s is waited for until the deadline', async (_, answer) => {
  await serve(answer)
  const clock = fakeClock()
  const failed = launcher({ deadlineMs: 1000 }, clock).report().catch(String)
  let end: unknown
  void failed.then((error) => (end = error))
  await clock.advance(999)
  expect(end).toBeUndefined()
  await clock.advance(1)
  expect(await failed).toBe('LauncherUnreachable: the launcher did not respond within 1 s')
  expect(clock.pending()).toBe(0)
})

test('a deadline at any moment of the exchange ends the request', async () => {
  await serve((_, response) => void response.write('{"vm'))
  // Opening and closing files waits for these, so that there are such moments.
  const others = Array.from({ length: 100 }, () => promisify(pbkdf2)('x', 'y', 20_000, 32, 'sha256'))
  const asked = Array.from({ length: 100 }, (_, index) => launcher({ deadlineMs: index * 4 }).report())
  const failures = await Promise.allSettled(asked)
  expect(failures.filter((one) => one.status === 'fulfilled' || !(one.reason instanceof LauncherUnreachable))).toEqual(
    [],
  )
  await Promise.all(others)
})

test('ends a response that exceeds the limit of the node', async () => {
  await serve((_, response) => void response.end(JSON.stringify({ ...report, message: 'x'.repeat(1000) })))
  await expect(launcher({ hold: heldUpTo(999) }).report()).rejects.toThrow(/bytes of its response were pending/)
})

test('parses no more than a piece of a response that has exceeded a limit with its first chunk', async () => {
  const push = vi.spyOn(IncomingMessage.prototype, 'push')
  onTestFinished(() => void vi.restoreAllMocks())
  await serve(
    ({ socket }) =>
      void socket.write(`HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n${'1\r\nx\r\n'.repeat(10_000)}`),
  )
  await expect(launcher({ hold: heldUpTo(1) }).report()).rejects.toThrow(/bytes of its response were pending/)
  expect(push.mock.calls.length).toBeLessThan(4096 / 6 + 1)
})

test('counts a request towards the limit of the node until it has ended', async () => {
  await serve((_, response) => void response.end(JSON.stringify(report)))
  const limit = { hold: heldUpTo(1500) }
  for (let time = 0; time < 5; time++) expect(await launcher(limit).report()).toEqual(report)
  const domain = { title: 'x'.repeat(1500) }
  await expect(
    launcher(limit).put({ apiVersion: 'virtset.io/v1alpha1', kind: 'VirtualMachine', metadata: {}, spec: { domain } }),
  ).rejects.toThrow(/bytes of its response were pending/)
})

test('a launcher that answers without reading the request does not keep what it has not read', async () => {
  const launchers: Socket[] = []
  await serve(
    createTCPServer({ pauseOnConnect: true }, (socket) => {
      launchers.push(socket)
      socket.write('HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}')
    }),
  )
  const text = 'x'.repeat(4 * 1024 * 1024)
  await launcher().putCapabilities(text)
  let received = 0
  for (const socket of launchers) for await (const chunk of socket) received += (chunk as Buffer).length
  expect(received).toBeGreaterThan(0)
  expect(received).toBeLessThan(text.length)
})

test('charges requests by the byte, also those that are refused', async () => {
  const error = { reason: 'LibvirtUnavailable', message: '' }
  await serve(
    (request, response) =>
      void request.resume().on('end', () => response.writeHead(503).end(JSON.stringify({ error }))),
  )
  const responses = createBucket(1, 1024, none)
  await expect(launcher({ responses }).putCapabilities('x'.repeat(200_000))).rejects.toThrow(LauncherRefusal)
  // The response is charged as 1 KiB.
  expect(responses.take(0)).toBe(200_000_000)
})

test('charges responses by the byte, and each chunk as at least 1 KiB', async () => {
  await serve((_, response) => void response.end(JSON.stringify(report)))
  const responses = createBucket(1, 1024, none)
  await launcher({ responses }).report()
  expect(responses.take(0)).toBe(0)
  await launcher({ responses }).report()
  expect(responses.take(0)).toBe(1_024_000)
})

describe('events', () => {
  let seen: LauncherEvent[]
  const watch = (more: Partial<LauncherLimits> = {}, clock?: Clock) =>
    launcher(more, clock).watch(forever, (event) => seen.push(event))

  beforeEach(() => {
    seen = []
  })

  /** Sends the pieces one by one, each once the one before was read. */
  const inPieces = (pieces: readonly string[]): RequestListener => {
    return (_, response) => {
      const next = (index: number) => {
        const piece = pieces[index]
        if (piece === undefined) response.end()
        else response.write(piece, () => setTimeout(next, 5, index + 1))
      }
      next(0)
    }
  }
  const change = `${JSON.stringify(report)}\n`
  const beat = '{"heartbeat":true}\n'

  test.each<[string, string[], LauncherEvent[]]>([
    ['a change and a heartbeat', [change, beat], ['change', 'heartbeat']],
    ['a change cut anywhere', [change.slice(0, 7), change.slice(7, 20), change.slice(20)], ['change']],
    ['a heartbeat cut anywhere', [beat.slice(0, 7), beat.slice(7, 18), '\n'], ['heartbeat']],
    ['what only begins as a heartbeat', ['{"heartbeat":true} \n'], ['change']],
    ['many at once', [beat + change + beat], ['change']],
    ['a line that never ends', [change, 'x'.repeat(100_000)], ['change']],
  ])('%s', async (_, pieces, expected) => {
    await serve(inPieces(pieces))
    await expect(watch()).rejects.toThrow(new LauncherUnreachable('the launcher ended its response'))
    expect(seen).toEqual(expected)
  })

  test.each<[string, string, string]>([
    ['before the response', '', '\r\n'],
    ['after an event', `${chunked}${change.length.toString(16)}\r\n${change}\r\n`, '0'],
  ])('end when more arrives than they have, %s', async (_, head, piece) => {
    await serve(({ socket }) => flood(socket, head, piece))
    await expect(watch()).rejects.toThrow(new InvalidLauncherResponse('it sends more than its response contains'))
  })

  test('of a launcher that changes the protocol instead', async () => {
    await serve(({ socket }) => void socket.write(otherProtocol))
    await expect(watch()).rejects.toThrow(LauncherUnreachable)
  })

  test.each(['x', '\n', change, beat])('without end, of %j, end the stream at its limit', async (text) => {
    await serve((_, response) => {
      const more = () => {
        while (!response.destroyed && response.write(text.repeat(1000))) continue
      }
      response.on('drain', more)
      more()
    })
    await expect(watch({ events: createBucket(0, 1024 * 1024, none) })).rejects.toThrow(
      new InvalidLauncherResponse('it sends too many events'),
    )
  })

  test('are not followed after the caller’s abort', async () => {
    await serve((_, response) => void response.write(change))
    const stop = new AbortController()
    const watching = launcher().watch(stop.signal, () => stop.abort())
    await expect(watching).rejects.toThrow(LauncherUnreachable)
  })

  test('must begin by the deadline, and have a heartbeat at least every third time', async () => {
    const clock = fakeClock()
    let response: ServerResponse | undefined
    await serve((_, one) => (response = one))
    const silent = watch({ deadlineMs: 1000 }, clock).catch(String)
    await until(() => response !== undefined)
    await clock.advance(1000)
    expect(await silent).toBe('LauncherUnreachable: the launcher did not respond within 1 s')

    response = undefined
    const started = watch({ deadlineMs: 1000 }, clock).catch(String)
    await until(() => response?.write(change))
    await until(() => seen.length === 1)
    await clock.advance(3 * heartbeatIntervalMs)
    expect(await started).toBe('LauncherUnreachable: the launcher sent no heartbeat')
    expect(clock.pending()).toBe(0)
  })
})
