import { spawn } from 'node:child_process'
import { once } from 'node:events'
import type { IncomingMessage } from 'node:http'
import { get } from 'node:https'
import { duplexPair, type Duplex } from 'node:stream'
import { text } from 'node:stream/consumers'
import { connect } from 'node:tls'
import { writeFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { WebSocket } from 'ws'
import type { GuestMetrics } from '../../api/guest-metrics.ts'
import { run } from '../../cluster/command.ts'
import { bundledCapabilities } from '../../completion/capabilities.ts'
import { createSessionAccess } from '../../handler/session-access.ts'
import { startSessionServer, type SessionServer } from '../../handler/session-server.ts'
import { ConsoleHub } from '../../launcher/console-hub.ts'
import { kubeconfigAccess } from '../../runtime/access.ts'
import { systemClock } from '../../runtime/clock.ts'
import { createKubeClient, type KubeClient } from '../../runtime/kube.ts'
import { createLogger } from '../../runtime/log.ts'
import { dial } from '../records.ts'
import { until } from '../until.ts'
import { serveScreen } from '../fake-screen.ts'
import { barriersOf, openPage } from '../page.ts'
import { accountOf, kubectlAs } from './accounts.ts'
import { startApiServer, type TestApiServer } from './apiserver.ts'
import { installProcesses, type Processes, type Replica } from './processes.ts'

/**
 * Sessions through the API server's aggregator and the webhooks' process, with a handler’s session server in this
 * process. Behind it is the launcher's hub with a guest that echoes.
 */
let api: TestApiServer
let processes: Processes
let webhooks: Replica
let kube: KubeClient
let sessionServer: SessionServer
/** What the last viewer has sent, in hexadecimal. */
let keysAtScreen = () => ''
let guest: Duplex

const podUID = '0b9dd0ab-6a4a-4bbb-9f6f-0d2f7a1a6c11'
/** The consoles of guests by the UID of their pods. */
const hubs = new Map<string, ConsoleHub>()
const log = createLogger({ process: 'test', level: 'silent' })
const kubectl = (rest: string[], input?: object) =>
  run(
    [api.kubectl, '--kubeconfig', api.kubeconfig, ...rest],
    input === undefined ? {} : { input: JSON.stringify(input) },
  )

/** Metrics that were read, and what a guest has used then: half a CPU, and 1 MiB written per second. */
let reads = 0
const used = (seconds: number): GuestMetrics => ({
  kind: 'VirtualMachineMetrics',
  apiVersion: 'subresources.virtset.io/v1alpha1',
  time: new Date(seconds * 1000).toISOString(),
  cpu: { usageSeconds: seconds / 2, count: 1 },
  memory: { totalBytes: 64 * 2 ** 20, usedBytes: 32 * 2 ** 20, residentBytes: 80 * 2 ** 20 },
  disks: [{ target: 'vda', readBytes: 0, writtenBytes: seconds * 2 ** 20, reads: 0, writes: seconds }],
  network: [{ name: 'eth0', receivedBytes: 0, sentBytes: 0 }],
})

/** The launchers' ends of sessions with consoles. */
const consoles: Duplex[] = []

/** A launcher's console, whose guest echoes in capitals. @returns the guest */
function startHub(uid: string): Duplex {
  const [ours, theirs] = duplexPair()
  theirs.on('data', (chunk: Buffer) => theirs.write(chunk.toString().toUpperCase()))
  const hub = new ConsoleHub({ open: async () => ours, clock: systemClock, log })
  void hub.start()
  theirs.write('booting\n')
  hubs.set(uid, hub)
  return theirs
}

beforeAll(async () => {
  api = await startApiServer()
  const token = join(api.directory, 'handler-token')
  processes = await installProcesses(api, { environment: { HANDLER_TOKEN: token } })
  const audience = ['--audience', 'virtset-handler']
  writeFileSync(token, await kubectl(['create', 'token', '-n', 'virtset-system', 'virtset-webhooks', ...audience]))
  kube = createKubeClient({ access: await kubeconfigAccess({ file: api.kubeconfig }), userAgent: 'test' })
  guest = startHub(podUID)
  sessionServer = await startSessionServer({
    port: 0,
    host: '127.0.0.1',
    address: '127.0.0.1',
    accessOf: createSessionAccess(kube, systemClock, 'system:serviceaccount:virtset-system:virtset-webhooks'),
    namespaceOf: (uid) => (hubs.has(uid) ? 'default' : undefined),
    open: async (uid, target) => {
      const [ours, theirs] = duplexPair()
      if (target.kind === 'vnc') {
        keysAtScreen = serveScreen(theirs)
        return { socket: ours }
      }
      if (target.kind !== 'console') {
        if (target.kind === 'metrics') theirs.end(JSON.stringify(used(++reads)))
        else theirs.write(`${target.kind}${target.kind === 'tcp' ? target.port : ''}`)
        if (target.kind === 'screenshot') theirs.end()
        return { socket: ours }
      }
      const session = await hubs.get(uid)!.join(target)
      session.start(theirs)
      consoles.push(theirs)
      return { ...session, socket: ours }
    },
    log,
    clock: systemClock,
  })
  webhooks = await processes.startWebhooks('one')
  await kubectl(['apply', '--server-side', '-f', '-'], {
    apiVersion: 'virtset.io/v1alpha1',
    kind: 'NodeProfile',
    metadata: { name: 'n1' },
    spec: {
      libvirtVersion: '11.3.0',
      kvm: false,
      taints: [],
      sessionEndpoint: sessionServer.published,
      capabilities: bundledCapabilities,
    },
  })
  await createVms('web', 'idle')
  await runs('web', podUID)
  for (const role of ['view', 'edit', 'admin']) {
    await kubectl(['create', 'rolebinding', role, `--clusterrole=virtset-${role}`, `--user=${role}`, '-n', 'default'])
  }
})
afterAll(async () => {
  await sessionServer?.close()
  await kube?.close()
  await processes?.stop()
  await api?.stop()
})

async function createVms(...names: string[]): Promise<void> {
  const devices = { serials: [{ type: 'pty' }], graphics: [{ type: 'vnc' }] }
  const domain = { type: 'qemu', memory: { unit: 'MB', value: 64 }, os: { type: { os: 'hvm' } }, devices }
  const items = names.map((name) => ({
    apiVersion: 'virtset.io/v1alpha1',
    kind: 'VirtualMachine',
    metadata: { name, namespace: 'default' },
    spec: { domain },
  }))
  await kubectl(['create', '-f', '-'], { apiVersion: 'v1', kind: 'List', items })
}

/** Sets the status of a VM as the controller does. */
const runs = (name: string, uid: string) => reports(name, { phase: 'Running', nodeName: 'n1', podUID: uid })
const reports = (name: string, reported: object) => {
  const status = JSON.stringify({ status: reported })
  const asController = kubectlAs(accountOf('controller'))
  return kubectl(['patch', 'vm', name, '--subresource=status', '--type=merge', '-p', status, ...asController])
}

const groupOf = (subresource: string) =>
  ['screenshot', 'metrics'].includes(subresource) ? 'subresources.virtset.io' : 'sessions.virtset.io'
const pathOf = (name: string, subresource: string) =>
  `/apis/${groupOf(subresource)}/v1alpha1/namespaces/default/virtualmachines/${name}/${subresource}`
const tls = () => ({ ca: api.certificateAuthority, cert: api.clientCertificate, key: api.clientKey })
const headersOf = (user: string) => ({ 'impersonate-user': user, 'impersonate-group': 'system:authenticated' })

interface Session {
  readonly code: number
  readonly message: string
  readonly client: WebSocket
  readonly position: string
  readonly heard: () => string
}

function attach(name: string, user = 'edit', query = '', subresource = 'attach/console'): Promise<Session> {
  const client = new WebSocket(api.server.replace('https', 'wss') + pathOf(name, subresource) + query, {
    ...tls(),
    headers: headersOf(user),
  })
  let [heard, position] = ['', '']
  client.on('error', () => {})
  client.on('message', (data: Buffer) => (heard += data.toString()))
  client.on('upgrade', ({ headers }) => (position = String(headers['virtset-position'])))
  const session = { client, heard: () => heard }
  return new Promise((resolve) => {
    client.on('open', () => resolve({ ...session, code: 101, message: '', position }))
    client.on('unexpected-response', (_, response) => {
      void text(response).then((body) => {
        const { message } = JSON.parse(body)
        resolve({ ...session, code: response.statusCode ?? 0, message, position })
      })
    })
  })
}

const readPlain = (name: string, user: string, subresource: string) =>
  new Promise<IncomingMessage>((resolve, reject) => {
    const options = { ...tls(), headers: headersOf(user), agent: false }
    get(api.server + pathOf(name, subresource), options, resolve).on('error', reject)
  })
const readLog = (name: string, user: string, query = '') => readPlain(name, user, `log${query}`)

test('a user with virtset-edit sees the past of a console and types on it', async () => {
  // Until the API server applies the role binding.
  const session = await until(async () => {
    const opened = await attach('web')
    return opened.code === 101 ? opened : undefined
  })
  expect([session.code, session.position]).toEqual([101, expect.stringMatching(/^[0-9a-f]{8}\.0$/)])
  await until(() => session.heard().includes('booting'))
  session.client.send('hello')
  await until(() => session.heard().includes('HELLO'))
  const closed = once(session.client, 'close')
  session.client.close(1000)
  await closed

  const records = () =>
    webhooks
      .log()
      .split('\n')
      .filter((line) => line.includes('"a session '))
      .map((line) => JSON.parse(line))
      .filter(({ msg }) => msg !== 'a session was refused')
  await until(() => records().length === 2)
  const opened = {
    kind: 'console',
    resource: 'virtualmachines',
    namespace: 'default',
    name: 'web',
    user: 'edit',
    uid: expect.stringMatching(/^[0-9a-f-]{36}$/),
    auditID: expect.stringMatching(/^[0-9a-f-]{36}$/),
    from: expect.stringMatching(/^20.*Z$/),
  }
  const ended = { until: expect.stringMatching(/^20.*Z$/), toGuest: 5, fromGuest: session.heard().length, code: 1000 }
  expect(records()).toMatchObject([
    { msg: 'a session was opened', ...opened },
    { msg: 'a session has ended', ...opened, ...ended },
  ])
})

test('a session continues at a position', async () => {
  const first = await attach('web')
  const [epoch] = first.position.split('.')
  first.client.close()
  const session = await attach('web', 'edit', `?after=${epoch}.4`)
  await until(() => session.heard().startsWith('ing\n'))
  expect(session.position).toBe(`${epoch}.4`)
  session.client.close()
})

test('50 consoles of two users at once show the past, and each reaches its guest', async () => {
  const names = ['many-0', 'many-1', 'many-2', 'many-3']
  await createVms(...names)
  for (const [index, name] of names.entries()) {
    const uid = podUID.replace(/..$/, `a${index}`)
    startHub(uid)
    await runs(name, uid)
  }
  const sessions = await Promise.all(
    Array.from({ length: 50 }, (_, index) => attach(names[index % 4] ?? '', index % 2 === 0 ? 'edit' : 'admin')),
  )
  expect(sessions.map(({ code }) => code)).toEqual(sessions.map(() => 101))
  for (const [index, { client }] of sessions.entries()) client.send(`<${index}>`)
  // All sessions of a VM show what any of them typed.
  const typed = sessions.map((_, index) => `<${index}>`)
  const shows = ({ heard }: Session, index: number) =>
    heard().startsWith('booting') && typed.every((text, other) => heard().includes(text) === (other % 4 === index % 4))
  await until(() => sessions.every(shows))
  for (const { client } of sessions) client.close()
})

test('users who send frames in records of one byte do not exhaust the memory of the webhooks', async () => {
  const { port, hostname } = new URL(api.server)
  await createVms('flooded')
  startHub(podUID.replace(/..$/, 'b0'))
  await runs('flooded', podUID.replace(/..$/, 'b0'))
  const before = webhooks.usage().peakBytes
  const clients = await Promise.all(
    Array.from({ length: 4 }, async () => {
      const wire = dial(Number(port))
      const client = connect({ socket: wire, host: hostname, ...tls() }).on('error', () => {})
      const { 'impersonate-user': user, 'impersonate-group': group } = headersOf('edit')
      client.write(
        `GET ${pathOf('flooded', 'attach/console')} HTTP/1.1\r\nHost: ${hostname}\r\n` +
          `Impersonate-User: ${user}\r\nImpersonate-Group: ${group}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n` +
          'Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: MDEyMzQ1Njc4OWFiY2RlZg==\r\n\r\n',
      )
      const [response] = await once(client, 'data')
      expect(String(response)).toMatch(/^HTTP\/1.1 101 /)
      client.resume()
      // A frame of 256 KiB, which never ends.
      client.write(Buffer.from([0x82, 0xff, 0, 0, 0, 0, 0, 4, 0, 0, 0, 0, 0, 0]))
      let isSent = false
      void wire.sendEach(client, 'x'.repeat(60_000)).then(() => (isSent = true))
      return { client, isSent: () => isSent }
    }),
  )
  await until(() => clients.every(({ isSent }) => isSent()))
  // What is sent on the way of the records arrives after them, unless they wait.
  const session = await attach('many-0')
  for (let count = 0; count < 50; count++) {
    session.client.send(`<echo ${count}>`)
    await until(() => session.heard().includes(`<ECHO ${count}>`))
  }
  session.client.close()
  for (const { client } of clients) client.destroy()
  expect(webhooks.usage().peakBytes - before).toBeLessThan(32 * 1024 * 1024)
})

test('the log of a console is a plain response', async () => {
  const response = await readLog('web', 'edit', '?tailBytes=100')
  expect([response.statusCode, await text(response)]).toEqual([200, expect.stringContaining('booting\n')])
})

test('the log of a console whose launcher is killed is not complete', async () => {
  const response = await readLog('web', 'edit', '?follow=true')
  consoles.at(-1)?.end()
  await expect(text(response)).rejects.toThrow('aborted')
})

test.each([
  ['attach/vnc', 'RFB 003.008\n'],
  ['portforward/22', 'tcp22'],
])('a user with virtset-edit has a session of %s', async (subresource, greeting) => {
  const session = await attach('web', 'edit', '', subresource)
  await until(() => session.heard() === greeting)
  session.client.close()
  expect(await attach('web', 'view', '', subresource)).toMatchObject({ code: 403 })
})

test('a user with virtset-view reads the metrics of a guest', async () => {
  const read = async () => {
    const response = await readPlain('web', 'view', 'metrics')
    return [response.statusCode, response.headers['content-type'], await text(response)] as const
  }
  const [, type, body] = await until(async () => {
    const answer = await read()
    return answer[0] === 200 ? answer : undefined
  })
  expect([type, JSON.parse(body)]).toEqual(['application/json; charset=utf-8', used(reads)])
  const stranger = await readPlain('web', 'stranger', 'metrics')
  stranger.resume()
  expect(stranger.statusCode).toBe(403)
})

test('the page shows screen and console side by side, types on both, and plots what the guest uses', async () => {
  const { page, errors, foreign, close } = await openPage('--kubeconfig', api.kubeconfig)
  try {
    await page.getByRole('link', { name: 'web' }).click()
    const rows = page.locator('#console .xterm-rows')
    await rows.getByText('booting').first().waitFor()
    await page.locator('#console').click()
    await page.keyboard.type('typed in the browser')
    await rows.getByText('TYPED IN THE BROWSER').first().waitFor()

    await page.locator('#screen-state').getByText('connected', { exact: true }).waitFor()
    await page.locator('#screen canvas').click()
    await page.keyboard.press('a')
    // The key a, pressed.
    await until(() => keysAtScreen().includes('0401000000000061'))

    const isInGuest = () => page.evaluate("document.activeElement.closest('#screen, #console') !== null")
    expect(await isInGuest()).toBe(true)
    await page.keyboard.press('Control+]')
    expect(await isInGuest()).toBe(false)
    // The control key, released, and no bracket.
    await until(() => keysAtScreen().includes('040000000000ffe3'))
    expect(keysAtScreen()).not.toContain('000000000000005d')
    await page.locator('#console').click()
    expect(await isInGuest()).toBe(true)
    await page.keyboard.press('Control+]')
    expect(await isInGuest()).toBe(false)

    const plot = (name: string) => page.locator('.plot', { has: page.getByRole('heading', { name }) })
    await plot('CPU').getByText('50 % of 1').waitFor()
    await plot('Memory').getByText('32 MiB of 64 MiB').waitFor()
    await plot('Disk').getByText('read 0 B/s, write 1.0 MiB/s').waitFor()
    // Playwright takes a level line for hidden: it has no height.
    await plot('CPU').locator('polyline').waitFor({ state: 'attached' })
    await page.locator('.leaf').first().waitFor()
    expect(await barriersOf(page)).toEqual([])
    expect([errors, foreign]).toEqual([[], []])
  } finally {
    await close()
  }
})

test('two pages show one guest, and each what is typed in the other', async () => {
  const { page, errors, close } = await openPage('--kubeconfig', api.kubeconfig)
  try {
    const other = await page.context().newPage()
    await other.goto(page.url())
    for (const [index, one] of [page, other].entries()) {
      await one.bringToFront()
      await one.getByRole('link', { name: 'web' }).click()
      await one.locator('#screen-state').getByText('connected', { exact: true }).waitFor()
      await one.locator('#console-state').getByText('connected', { exact: true }).waitFor()
      await one.locator('#console').click()
      await one.keyboard.type(`viewer ${index}`)
    }
    for (const one of [page, other]) {
      await one.bringToFront()
      for (const text of ['VIEWER 0', 'VIEWER 1'])
        await one.locator('#console .xterm-rows').getByText(text).first().waitFor()
      await one.locator('#screen-state').getByText('connected', { exact: true }).waitFor()
    }
    expect(errors).toEqual([])
  } finally {
    await close()
  }
})

test('kubectl vm log -f prints the past of a VM of a config, and what follows until the VM ends', async () => {
  const spec = { domain: { type: 'qemu', memory: { unit: 'MB', value: 64 }, os: { type: { os: 'hvm' } } } }
  await kubectl(['create', '-f', '-'], {
    apiVersion: 'virtset.io/v1alpha1',
    kind: 'VirtualMachineConfig',
    metadata: { name: 'logged', namespace: 'default' },
    spec: { template: { spec } },
  })
  const config = 'virtset.io/v1alpha1/namespaces/default/virtualmachineconfigs/logged'
  await kubectl(['create', '--raw', `/apis/subresources.${config}/start`, '-f', '-'], {})
  const uid = podUID.replace(/..$/, 'c0')
  const other = startHub(uid)
  await runs('logged', uid)
  expect(await kubectl(['get', '--raw', `/apis/sessions.${config}/log`])).toBe('booting\n')

  const main = resolve(import.meta.dirname, '../../cli/main.ts')
  const log = spawn(process.execPath, [main, 'log', '-f', 'logged', '--kubeconfig', api.kubeconfig], {
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  let printed = ''
  log.stdout.on('data', (chunk: Buffer) => (printed += chunk.toString()))
  await until(() => printed === 'booting\n', undefined, { deadlineMs: 120_000 })
  other.write('login: ')
  await until(() => printed === 'booting\nlogin: ')
  const exit = once(log, 'exit')
  await reports('logged', { phase: 'Succeeded' })
  void hubs.get(uid)?.end()
  expect((await exit)[0]).toBe(0)
  expect(printed).toBe('booting\nlogin: ')
})

test('a screenshot requires virtset-admin', async () => {
  const take = async (user: string) => {
    const response = await readPlain('web', user, 'screenshot')
    return [response.statusCode, await text(response)]
  }
  const taken = await until(async () => {
    const answer = await take('admin')
    return answer[0] === 200 ? answer : undefined
  })
  expect(taken).toEqual([200, 'screenshot'])
  expect((await take('edit'))[0]).toBe(403)
})

test('a user with virtset-view has neither', async () => {
  expect(await attach('web', 'view')).toMatchObject({ code: 403, message: expect.stringContaining('cannot get') })
  const response = await readLog('web', 'view')
  response.resume()
  expect(response.statusCode).toBe(403)
})

/** Allows a user this in the namespace `default`. */
async function allow(user: string, verb: string, subresource: string, names: readonly string[] = []): Promise<void> {
  const name = `${user}-${subresource}`
  const rbac = { apiVersion: 'rbac.authorization.k8s.io/v1', metadata: { name, namespace: 'default' } }
  const [apiGroups, resources] = [[groupOf(subresource)], [`virtualmachines/${subresource}`]]
  const rule = { apiGroups, resources, verbs: [verb], ...(names.length === 0 ? {} : { resourceNames: names }) }
  await kubectl(['create', '-f', '-'], { ...rbac, kind: 'Role', rules: [rule] })
  await kubectl(['create', 'rolebinding', name, `--role=${name}`, `--user=${user}`, '-n', 'default'])
}

/** Until the API server applies new permissions, and the webhooks no longer use an old result. */
const untilRefused = (name: string, user: string, code: number, message: string) =>
  until(async () => {
    const session = await attach(name, user)
    return session.code === code && session.message.includes(message)
  })

test('get of attach alone opens no console, and permissions can be for one VM', async () => {
  await allow('one', 'get', 'attach')
  const cannotUpdate = 'cannot update resource "virtualmachines/console"'
  expect(await untilRefused('web', 'one', 403, cannotUpdate)).toBe(true)
  await allow('one', 'update', 'console', ['idle'])
  // Allowed, but the VM does not run.
  expect(await untilRefused('idle', 'one', 409, 'must be Running')).toBe(true)
  expect((await attach('web', 'one')).code).toBe(403)
})

test('refusals are a Status with the reason', async () => {
  expect(await attach('absent')).toMatchObject({ code: 404, message: expect.stringContaining('"absent" not found') })
  expect((await attach('web', 'edit', '?tailBytes=x')).code).toBe(400)
})

test('an open session occupies no seat of Priority and Fairness', async () => {
  const session = await attach('web')
  // Short requests of the webhooks and of this test occupy seats as well.
  const busy = async () => {
    const metrics = await kubectl(['get', '--raw', '/metrics'])
    const seats = metrics
      .split('\n')
      .filter((line) => line.startsWith('apiserver_flowcontrol_current_executing_seats{'))
    const limited = seats.filter((line) => !line.includes('priority_level="exempt"'))
    return limited.length === 0 ? undefined : limited.filter((line) => !line.endsWith(' 0'))
  }
  await until(async () => (await busy())?.length === 0)
  expect(session.client.readyState).toBe(WebSocket.OPEN)
  session.client.close()
})

test('an account other than the webhooks cannot open sessions at the handler', async () => {
  const wrong = [
    (await kubectl(['create', 'token', '-n', 'virtset-system', 'virtset-webhooks'])).trim(),
    (await kubectl(['create', 'token', '-n', 'default', 'default', '--audience', 'virtset-handler'])).trim(),
  ]
  const statuses = await Promise.all(
    wrong.map(
      (token) =>
        new Promise((resolve, reject) => {
          const headers = { connection: 'Upgrade', upgrade: 'virtset', authorization: `Bearer ${token}` }
          const url = `https://${sessionServer.published.address}/pods/${podUID}/console`
          get(url, { rejectUnauthorized: false, headers, agent: false }, (response) => {
            resolve(response.resume().statusCode)
          }).on('error', reject)
        }),
    ),
  )
  expect(statuses).toEqual([403, 403])
})

test('a console that is open when the API server is killed loses no output', async () => {
  const main = resolve(import.meta.dirname, '../../cli/main.ts')
  const words = ['console', 'web', '--no-input', '--tail', '0', '--kubeconfig', api.kubeconfig]
  const console = spawn(process.execPath, [main, ...words], { stdio: ['ignore', 'pipe', 'pipe'] })
  let [shown, messages] = ['', '']
  console.stdout.on('data', (chunk: Buffer) => (shown += chunk.toString()))
  console.stderr.on('data', (chunk: Buffer) => (messages += chunk.toString()))
  await until(() => messages.includes('Connected to web.'))
  let [count, isRestarting] = [0, true]
  const restarting = api.restart().finally(() => (isRestarting = false))
  while (isRestarting) {
    guest.write(` ${count++}`)
    await new Promise((wake) => setTimeout(wake, 50))
  }
  await restarting
  await until(() => messages.includes('Connected again'), undefined, { deadlineMs: 120_000 })
  guest.write(' end')
  await until(() => shown.includes(' end'))
  expect(shown).toBe(`${Array.from({ length: count }, (_, index) => ` ${index}`).join('')} end`)
  console.kill()
  await once(console, 'exit')
})

test('when the webhooks stop, a session ends with 1012', async () => {
  const session = await attach('web')
  const closed = once(session.client, 'close')
  webhooks.child.kill('SIGTERM')
  const [code] = await closed
  expect(code).toBe(1012)
})
