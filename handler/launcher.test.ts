import { constants } from 'node:fs'
import { mkdir, mkdtemp, open, rm } from 'node:fs/promises'
import { createServer, type RequestListener, type Server } from 'node:http'
import { once } from 'node:events'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import {
  InvalidLauncherAnswer,
  heartbeatIntervalMs,
  maxMessageBytes,
  type DomainReport,
  type LauncherEvent,
} from '../runtime/launcher-api.ts'
import { fakeClock } from '../test/fake-clock.ts'
import { until } from '../test/until.ts'
import { LauncherAbsent, LauncherRefusal, LauncherUnreachable, launcherOf } from './launcher.ts'
import { pathOf } from './socket.ts'

const uid = '0f0e0d0c-0b0a-4908-8706-050403020100'
const report: DomainReport = { vmUID: 'vm-1', phase: 'Running', reason: 'booted', observedAt: '2026-01-02T03:04:05Z' }

let root: string
let server: Server | undefined

beforeEach(async () => {
  root = await mkdtemp(join(tmpdir(), 'kubelet-'))
})

afterEach(async () => {
  server?.closeAllConnections()
  server?.close()
  server = undefined
  await rm(root, { recursive: true })
})

async function serve(answer: RequestListener): Promise<void> {
  const directory = join(root, 'pods', uid, 'volumes/kubernetes.io~empty-dir/sockets')
  await mkdir(directory, { recursive: true })
  const handle = await open(directory, constants.O_DIRECTORY)
  server = createServer(answer).listen(`${pathOf(handle)}/launcher.sock`)
  await once(server, 'listening')
  await handle.close()
}

const launcher = () => launcherOf(root, uid)

test('asks by the contract’s methods and paths', async () => {
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
  const machine = {
    apiVersion: 'virtset.io/v1alpha1',
    kind: 'VirtualMachine',
    metadata: {},
    spec: { domain: {} },
  } as const

  expect(await launcher().put(machine)).toEqual(report)
  expect(await launcher().report()).toEqual(report)
  await launcher().shutdown(7)
  await launcher().destroy()
  await launcher().final()

  expect(asked).toEqual([
    `PUT /vm ${JSON.stringify(machine)}`,
    'GET /domain',
    'POST /shutdown {"gracePeriodSeconds":7}',
    'POST /destroy',
    'POST /final',
  ])
})

const otherProtocol = 'HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n'

const failures: [string, RequestListener | undefined, new (...words: never[]) => Error][] = [
  ['is not there', undefined, LauncherAbsent],
  ['hangs up', (request) => request.destroy(), LauncherUnreachable],
  [
    'hangs up in the middle',
    (_, response) => void response.write('{"vm', () => response.destroy()),
    LauncherUnreachable,
  ],
  ['sends no JSON', (_, response) => void response.end('<html>'), InvalidLauncherAnswer],
  ['sends another shape', (_, response) => void response.end('{"phase":7}'), InvalidLauncherAnswer],
  ['never stops sending', (_, response) => void response.end('"'.padEnd(maxMessageBytes + 2)), InvalidLauncherAnswer],
  [
    'sends byte by byte',
    ({ socket }) => {
      socket.write('HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n')
      socket.end(`${'1\r\n \r\n'.repeat(maxMessageBytes / 100)}0\r\n\r\n`)
    },
    InvalidLauncherAnswer,
  ],
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

test('a launcher that was killed is told of in the same words each time', async () => {
  await serve(() => {})
  server?.close()
  const other = await open(root, constants.O_DIRECTORY)
  const first = await launcher().report().catch(String)
  await other.close()
  expect([first, await launcher().report().catch(String)]).toEqual([
    'LauncherUnreachable: connect ECONNREFUSED',
    'LauncherUnreachable: connect ECONNREFUSED',
  ])
})

test('a launcher that changes the protocol instead of telling events is gone', async () => {
  await serve(({ socket }) => void socket.write(otherProtocol))
  await expect(launcher().watch(new AbortController().signal).next()).rejects.toThrow(LauncherUnreachable)
})

test('follows events cut anywhere, and says when they end', async () => {
  const second = { ...report, message: 'grüße' }
  const bytes = Buffer.from(`${JSON.stringify(report)}\n{"heartbeat":true}\n${JSON.stringify(second)}\n`)
  const cut = bytes.indexOf('ü') + 1
  await serve((_, response) => {
    response.write(bytes.subarray(0, cut), () => setImmediate(() => response.end(bytes.subarray(cut))))
  })

  const seen: LauncherEvent[] = []
  const watching = async () => {
    for await (const one of launcher().watch(new AbortController().signal)) seen.push(one)
  }
  await expect(watching()).rejects.toThrow(LauncherUnreachable)
  expect(seen).toEqual([{ kind: 'report', report }, { kind: 'heartbeat' }, { kind: 'report', report: second }])
})

test('stops following when asked to', async () => {
  await serve((_, response) => void response.write(`${JSON.stringify(report)}\n`))
  const stop = new AbortController()
  const watching = async () => {
    for await (const _ of launcher().watch(stop.signal)) stop.abort()
  }
  await expect(watching()).rejects.toThrow(LauncherUnreachable)
})

test.each<[string, RequestListener]>([
  ['nothing at all', () => {}],
  ['nothing more', (_, response) => void response.write(`${JSON.stringify(report)}\n`)],
])('a launcher that says %s for three heartbeats is gone', async (_, answer) => {
  const clock = fakeClock()
  let isAsked = false
  await serve((request, response) => {
    answer(request, response)
    isAsked = true
  })
  const watching = async () => {
    for await (const _report of launcherOf(root, uid, clock).watch(new AbortController().signal)) continue
  }
  let ended: unknown
  watching().catch((error: unknown) => (ended = error))
  await until(() => isAsked)
  expect(ended).toBeUndefined()
  await until(
    () => ended !== undefined,
    () => clock.advance(3 * heartbeatIntervalMs),
  )
  expect(ended).toEqual(new LauncherUnreachable('no heartbeat'))
})
