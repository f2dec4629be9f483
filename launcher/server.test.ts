import { execFile } from 'node:child_process'
import { mkdtemp, rm } from 'node:fs/promises'
import { type IncomingHttpHeaders, type IncomingMessage, type Server, request } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Duplex } from 'node:stream'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import {
  type CapabilitiesCache,
  type DomainReport,
  heartbeatLine,
  maxResponseBytes,
  maxMessageBytes,
  parseDomainReport,
  parseJson,
  parseLauncherError,
  parsePutResponse,
} from '../runtime/launcher-api.ts'
import { createLogger } from '../runtime/log.ts'
import type { TapAddress } from '../runtime/network-api.ts'
import type { SessionTarget } from '../runtime/session-api.ts'
import { type FakeClock, fakeClock, settle } from '../test/fake-clock.ts'
import { type FakeLibvirtd, fakeLibvirtd } from '../test/fake-libvirtd.ts'
import { ask, openConsole } from '../test/launcher-client.ts'
import { eventually } from '../test/until.ts'
import { GuestFreeze } from './freeze.ts'
import { GuestAgent } from './guest-agent.ts'
import { Life } from './life.ts'
import { Client } from './libvirt/client.ts'
import { LibvirtError } from './libvirt/errors.ts'
import { noAttachedVolumes } from '../test/no-attached-volumes.ts'
import { Media } from './media.ts'
import { Refused } from './refused.ts'
import { launcherServer } from './server.ts'

let directory: string
let socket: string
let server: Server
let client: Client
let fake: FakeLibvirtd
let clock: FakeClock
let life: Life
/** Why no session can be opened, or what one does. */
let session: Error | ((socket: Duplex) => void)
/** The targets of the sessions that were requested. */
let targets: SessionTarget[]
let stored: CapabilitiesCache[]
let served: (readonly TapAddress[])[]

beforeEach(async () => {
  targets = []
  stored = []
  served = []
  directory = await mkdtemp(join(tmpdir(), 'launcher-'))
  socket = join(directory, 'launcher.sock')
  fake = fakeLibvirtd()
  clock = fakeClock()
  session = new Refused('NotReady', 'the guest does not run yet')
  client = new Client({ dial: () => fake.dial(), uri: 'qemu:///session', clock, onHint: () => life.hint() })
  const log = createLogger({ process: 'launcher', level: 'silent' })
  life = new Life({
    client,
    clock,
    log,
    readMemoryUse: () => Promise.resolve({ oomKills: 0 }),
    beginTpms: () => Promise.resolve(),
    finishTpms: () => Promise.resolve(),
    onPrepared: () => Promise.resolve(),
    hasRoom: () => Promise.resolve(false),
    readLostFilesystems: () => Promise.resolve([]),
    growDisks: () => Promise.resolve(),
    agent: new GuestAgent({
      ask: () => Promise.resolve({}),
      isFrozen: () => false,
      clock,
      log,
      random: () => 0.5,
      onChange: () => {},
    }),
    guestFreeze: new GuestFreeze({
      freeze: () => Promise.resolve(1),
      thaw: () => Promise.resolve(1),
      clock,
      log,
      onChange: () => {},
    }),
    renderDisks: () => [],
    attachedVolumes: noAttachedVolumes,
    media: new Media({ update: () => Promise.resolve(), isOpen: async () => false, clock, log, onChange: () => {} }),
    prepare: async (spec) => spec.domain,
    writeXml: ({ name, title }) => `<domain><name>${name}</name><title>${title}</title></domain>`,
    readXml: (xml) => ({ xml }),
    compare: () => [],
  })
  client.start()
  const admit = async (target: SessionTarget) => {
    targets.push(target)
    if (session instanceof Error) throw session
    return { start: session, cancel: () => {} }
  }
  server = launcherServer({
    life,
    clock,
    log,
    sessions: {
      console: async (target) => ({ ...(await admit(target)), position: { epoch: '0123abcd', offset: 7 } }),
      screen: () => admit({ kind: 'vnc' }),
      port: (port) => admit({ kind: 'tcp', port }),
      screenshot: () => admit({ kind: 'screenshot' }),
      metrics: () => admit({ kind: 'metrics' }),
    },
    storeCapabilities: async (cache) => void stored.push(cache),
    serveAddresses: async (taps) => void served.push(taps),
    probe: async (name) =>
      name === 'livenessProbe'
        ? { isSuccess: false, message: 'the command exited with status 3: no' }
        : { isSuccess: true, message: '' },
  })
  await new Promise<void>((resolve) => server.listen(socket, resolve))
})

afterEach(async () => {
  server.closeAllConnections()
  server.close()
  client.close()
  await rm(directory, { recursive: true })
})

const vm = {
  apiVersion: 'virtset.io/v1alpha1',
  kind: 'VirtualMachine',
  metadata: { name: 'testvm', namespace: 'default', uid: 'u-1' },
  spec: { domain: { type: 'qemu', name: 'testvm', title: 'idle' } },
}

const put = () => ask(socket, 'PUT', '/vm', vm)

/** Puts the VM and waits until it is as wanted. */
async function started(phase = 'Running') {
  const answer = await put()
  await eventually(`it is ${phase}`, async () => (await life.report()).phase === phase)
  return answer
}

describe('requests', () => {
  test('accept, report and shut down a VM', async () => {
    expect(await ask(socket, 'GET', '/domain')).toMatchObject({ status: 200, body: { phase: 'Waiting' } })
    const answer = await started()
    expect(answer.status).toBe(202)
    expect(parsePutResponse(answer.body)).toMatchObject({ vmUID: 'u-1', phase: 'Defined', reason: 'starting' })
    expect(await ask(socket, 'POST', '/shutdown', { gracePeriodSeconds: 30 })).toEqual({ status: 202, body: {} })
    expect(await ask(socket, 'GET', '/domain')).toMatchObject({ body: { phase: 'ShuttingDown' } })
    expect(await ask(socket, 'POST', '/destroy')).toEqual({ status: 202, body: {} })
    await eventually('it is off', async () => (await life.report()).exit !== undefined)
    expect(await ask(socket, 'GET', '/domain')).toMatchObject({ body: { phase: 'Shutoff', exit: 'Failed' } })
    expect(await ask(socket, 'POST', '/final')).toEqual({ status: 202, body: {} })
    expect(await life.ended).toBe('Failed')
  })

  test('freeze and thaw the guest', async () => {
    expect(await ask(socket, 'POST', '/freeze', { id: 's-1' })).toMatchObject({ status: 409 })
    await started()
    expect(await ask(socket, 'POST', '/freeze', { id: 's-1' })).toEqual({ status: 202, body: {} })
    await eventually('it is frozen', async () => (await life.report()).frozen?.state === 'Frozen')
    expect(await ask(socket, 'POST', '/thaw', { id: 's-1' })).toEqual({ status: 202, body: {} })
    await eventually('it is thawed', async () => (await life.report()).frozen?.state === 'Thawed')
    expect(await ask(socket, 'GET', '/domain')).toMatchObject({ body: { frozen: { id: 's-1', state: 'Thawed' } } })
  })

  test('run a probe by a command, whose outcome is text for the kubelet', async () => {
    // Debian's perl is that of the launcher's image.
    const guestProbe = (name: string) =>
      new Promise((resolve) => {
        const program = join(import.meta.dirname, '../images/launcher/guest-probe')
        const env = { ...process.env, VIRTSET_SOCKET_DIR: directory }
        execFile(program, [name], { env }, (error, stdout) => resolve([error?.code ?? 0, stdout]))
      })
    expect(await guestProbe('readinessProbe')).toEqual([0, '\n'])
    expect(await guestProbe('livenessProbe')).toEqual([1, 'the command exited with status 3: no\n'])
    expect(await guestProbe('x')).toEqual([1, expect.stringContaining('POST /probe/x is not supported')])
    await rm(socket)
    expect(await guestProbe('readinessProbe')).toEqual([
      1,
      'the launcher does not listen yet: No such file or directory\n',
    ])
  })

  test.each([
    ['a request to freeze without an id', 400, 'BadRequest', 'POST', '/freeze', {}],
    ['another VM', 409, 'OtherVirtualMachine', 'PUT', '/vm', { ...vm, metadata: { ...vm.metadata, uid: 'u-2' } }],
    ['a body that is not a VM', 400, 'BadRequest', 'PUT', '/vm', { metadata: {} }],
    ['a body that is not JSON', 400, 'BadRequest', 'PUT', '/vm', '{"kind": '],
    ['a VM without uid', 400, 'BadRequest', 'PUT', '/vm', { ...vm, metadata: { name: 'testvm' } }],
    ['an empty body', 400, 'BadRequest', 'PUT', '/vm', undefined],
    ['a body that is too long', 400, 'BadRequest', 'PUT', '/vm', ' '.repeat(maxMessageBytes + 1)],
    ['a grace period that is not a number', 400, 'BadRequest', 'POST', '/shutdown', { gracePeriodSeconds: 'soon' }],
    ['an unknown path', 404, 'NotFound', 'GET', '/', undefined],
    ['an unknown method', 404, 'NotFound', 'DELETE', '/vm', undefined],
    ['a name from the prototype', 404, 'NotFound', 'GET', '/constructor', undefined],
  ])('%s: %d %s', async (_, status, reason, method, path, body) => {
    await put()
    expect(await ask(socket, method, path, body)).toMatchObject({ status, body: { error: { reason } } })
  })

  test('serve the addresses of taps, until the launcher has its VM', async () => {
    const dhcp6 = { ip: 'fd00::5', mtu: 1450, dns: ['fd00::a'], search: ['cluster.local'] }
    const dhcp = { ip: '10.0.0.5', prefix: 24, gateway: '10.0.0.1' }
    const tap = { dev: 'tap0', mac: '52:54:00:00:00:01', dhcp, dhcp6 }
    const send = (body: object) => ask(socket, 'PUT', '/network', body)
    expect(await send({ taps: [tap] })).toEqual({ status: 202, body: {} })
    expect(await send({ taps: [{ ...tap, mac: 'x' }] })).toEqual({
      status: 400,
      body: { error: { reason: 'BadRequest', message: 'tap.mac is not valid' } },
    })
    for (const [wrong, what] of [
      [{ ip: '10.0.0.5' }, 'ip is not an IPv6 address'],
      [{ ip: 'fe80::1%eth0' }, 'ip is not an IPv6 address'],
      [{ mtu: 1279 }, 'mtu is not an integer from 1280 to 65535'],
      [{ dns: ['10.0.0.1'] }, 'dns is not an IPv6 address'],
      [{ search: ['a b'] }, 'search is not valid'],
    ] as const)
      expect(await send({ taps: [{ ...tap, dhcp6: { ...dhcp6, ...wrong } }] })).toMatchObject({
        body: { error: { message: `dhcp6.${what}` } },
      })
    expect(await send({ taps: [{ ...tap, dhcp: { ...dhcp, server: 'fe80::1' } }] })).toMatchObject({
      body: { error: { message: 'dhcp.server is not an IPv4 address' } },
    })
    await put()
    expect(await send({ taps: [] })).toMatchObject({ status: 409, body: { error: { reason: 'OtherVirtualMachine' } } })
    expect(served).toEqual([[tap]])
  })

  test('store the capabilities of the node, until the launcher has its VM', async () => {
    const cache = { name: `${'0'.repeat(64)}.xml`, text: '<qemuCaps/>' }
    const send = (body: object) => ask(socket, 'PUT', '/capabilities', body)
    expect(await send(cache)).toEqual({ status: 202, body: {} })
    expect(await send({ ...cache, name: '../x.xml' })).toMatchObject({
      status: 400,
      body: { error: { reason: 'BadRequest' } },
    })
    await put()
    expect(await send(cache)).toMatchObject({ status: 409, body: { error: { reason: 'OtherVirtualMachine' } } })
    expect(stored).toEqual([cache])
  })

  test('limit the length of a refusal to what the handler reads', async () => {
    const { status, body } = await ask(socket, 'PUT', '/vm', {
      ...vm,
      spec: { domain: { title: 7, ['x'.repeat(70_000)]: 1 } },
    })
    expect([status, parseLauncherError(body).reason]).toEqual([400, 'BadRequest'])
  })

  test('respond with 409 to a shutdown without a VM', async () => {
    for (const path of ['/shutdown', '/destroy']) {
      expect(await ask(socket, 'POST', path, { gracePeriodSeconds: 1 })).toMatchObject({
        status: 409,
        body: { error: { reason: 'NotReady' } },
      })
    }
  })

  test('accept a VM without libvirt, whose refusal is reported with its own message', async () => {
    fake.refuseNext('domain_create_with_flags', new LibvirtError('no such file', 38, 10))
    expect(await started('Shutoff')).toMatchObject({ status: 202 })
    expect(await ask(socket, 'GET', '/domain')).toMatchObject({
      status: 200,
      body: { phase: 'Shutoff', reason: 'startFailed', exit: 'Failed', message: 'no such file' },
    })
  })

  test('without libvirtd: 503 after 3 s, and the VM is not reported as gone; a shutdown is accepted', async () => {
    await started()
    fake.restart(Infinity)
    const answer = ask(socket, 'GET', '/domain')
    await eventually('the request waits', () => clock.advance(1000).then(() => clock.monotonic() >= 4000))
    expect(await answer).toMatchObject({ status: 503, body: { error: { reason: 'LibvirtUnavailable' } } })
    expect(await ask(socket, 'POST', '/shutdown', { gracePeriodSeconds: 30 })).toMatchObject({ status: 202 })
    expect(await ask(socket, 'POST', '/destroy')).toMatchObject({ status: 202 })
  })

  test.each<[string, Partial<DomainReport>, Partial<DomainReport>]>([
    ['a domain', { domain: { title: 'x'.repeat(maxResponseBytes) } }, { specDrift: [{ field: 'a' }] }],
    ['a drift', { domain: {}, specDrift: [{ field: 'a', libvirt: 'x'.repeat(maxResponseBytes) }] }, {}],
    ['a domain of many values', { domain: { a: Array(50_000).fill(0) } }, { specDrift: [{ field: 'a' }] }],
    ['a list of many drifts', { domain: {}, specDrift: Array(1001).fill({ field: 'a' }) }, {}],
  ])('omits %s that is larger than the handler accepts', async (_, more, rest) => {
    const small = { vmUID: 'u-1', phase: 'Running', reason: 'booted', observedAt: '2030-01-01T00:00:00.000Z' } as const
    life.report = async () => ({ ...small, specDrift: [{ field: 'a' }], ...more })
    expect(await ask(socket, 'GET', '/domain')).toEqual({ status: 200, body: { ...small, ...rest } })
  })
})

describe('events', () => {
  let lines: string[]
  let response: IncomingMessage

  beforeEach(async () => {
    lines = []
    response = await new Promise((resolve, reject) => {
      request({ socketPath: socket, path: '/events' }, resolve).on('error', reject).end()
    })
    let text = ''
    response.setEncoding('utf8').on('data', (chunk: string) => {
      const complete = (text + chunk).split('\n')
      text = complete.pop() ?? ''
      lines.push(...complete)
    })
  })

  const reports = () => lines.filter((line) => line !== heartbeatLine).map((line) => parseDomainReport(parseJson(line)))
  const phases = () => reports().map(({ phase }) => phase)

  test('begin with the current state, and report each change', async () => {
    await eventually('the first line', () => lines.length > 0)
    await started()
    fake.killGuests()
    await eventually('the end', () => phases().at(-1) === 'Shutoff')
    expect(phases()[0]).toBe('Waiting')
    expect(phases()).toContain('Running')
    expect(reports().filter(({ domain, specDrift }) => domain !== undefined || specDrift !== undefined)).toEqual([])
  })

  test('have a heartbeat every 10 s', async () => {
    await eventually('the first line', () => lines.length > 0)
    await clock.advance(30_000)
    await eventually('three heartbeats', () => lines.length === 4)
    expect(lines.slice(1)).toEqual([heartbeatLine, heartbeatLine, heartbeatLine])
  })

  test('stop with the connection', async () => {
    await eventually('the first line', () => lines.length > 0)
    const timers = clock.pending()
    response.destroy()
    await eventually('the heartbeat is cancelled', () => clock.pending() === timers - 1)
    await put()
    await settle()
    expect(phases()).toEqual(['Waiting'])
  })
})

describe('a session', () => {
  const upgrade = (path: string, protocol = 'virtset') =>
    new Promise<{ status: number; headers: IncomingHttpHeaders; socket?: Duplex }>((resolve, reject) => {
      const headers = { connection: 'Upgrade', upgrade: protocol }
      request({ socketPath: socket, path, headers })
        .on('upgrade', (response, inner) => resolve({ status: 101, headers: response.headers, socket: inner }))
        .on('response', (response) => resolve({ status: response.statusCode ?? 0, headers: response.resume().headers }))
        .on('error', reject)
        .end()
    })

  test('begins with the position of its first byte, and carries bytes in both directions', async () => {
    session = (inner) => inner.on('data', (chunk: Buffer) => inner.write(chunk.toString().toUpperCase()))
    const opened = await upgrade('/console?tail=10')
    expect(opened).toMatchObject({ status: 101, headers: { 'virtset-position': '0123abcd.7', upgrade: 'virtset' } })
    expect(targets).toEqual([{ kind: 'console', tailBytes: 10, isFollowing: true }])
    let text = ''
    opened.socket?.on('data', (chunk: Buffer) => (text += chunk.toString()))
    opened.socket?.write('hello')
    await eventually('the answer', () => text === 'HELLO')
    opened.socket?.destroy()
  })

  test('can be opened by a handler that knows only consoles', async () => {
    session = (inner) => inner.end('login: ')
    const console = await openConsole(socket)
    let text = ''
    console.on('data', (chunk: Buffer) => (text += chunk.toString()))
    await eventually('the prompt', () => text === 'login: ')
    expect(targets).toEqual([{ kind: 'console', isFollowing: true }])
  })

  test.each([
    ['/vnc', { kind: 'vnc' }],
    ['/tcp/22', { kind: 'tcp', port: 22 }],
    ['/screenshot', { kind: 'screenshot' }],
    ['/metrics', { kind: 'metrics' }],
  ])('of another kind has no position: %s', async (path, target) => {
    session = (inner) => inner.end()
    const opened = await upgrade(path)
    expect([opened.status, opened.headers['virtset-position']]).toEqual([101, undefined])
    expect(targets).toEqual([target])
    opened.socket?.destroy()
  })

  test.each([
    ['an unknown path', '/shell', 'virtset', 404],
    ['a port that does not exist', '/tcp/65536', 'virtset', 404],
    ['a malformed position', '/console?after=x', 'virtset', 404],
    ['another protocol', '/console', 'websocket', 404],
    ['a guest that does not run', '/console', 'virtset', 409],
  ])('is refused for %s', async (_, path, protocol, status) => {
    expect((await upgrade(path, protocol)).status).toBe(status)
  })

  test('is refused beyond the limit', async () => {
    session = new Refused('TooManySessions', 'the VM already has 16 sessions')
    expect((await upgrade('/console')).status).toBe(429)
  })

  test('of a client that has disconnected meanwhile does no harm', async () => {
    const reader = request({
      socketPath: socket,
      path: '/console',
      headers: { connection: 'Upgrade', upgrade: 'virtset' },
    })
    reader.on('error', () => {}).end()
    await eventually('it is requested', () => targets.length === 1)
    reader.destroy()
    expect(await ask(socket, 'GET', '/domain')).toMatchObject({ status: 200 })
  })
})
