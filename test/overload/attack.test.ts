import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { connect as connectHttp2, type ClientHttp2Session } from 'node:http2'
import { connect } from 'node:net'
import type { Socket } from 'node:net'
import { join } from 'node:path'
import { Duplex } from 'node:stream'
import { connect as connectTls, TLSSocket, type ConnectionOptions } from 'node:tls'
import { Agent, request } from 'undici'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { lastLines, run } from '../../cluster/command.ts'
import { createAuthority, issueLeaf } from '../../webhooks/certificates/authority.ts'
import { createExpensiveChain } from '../expensive-chain.ts'
import { until } from '../until.ts'
import { startApiServer } from '../apiserver/apiserver.ts'
import type { TestApiServer } from '../apiserver/apiserver.ts'
import { installProcesses } from '../apiserver/processes.ts'
import type { Processes, Replica } from '../apiserver/processes.ts'

/**
 * Attacks on the real webhooks, within the memory of their manifest, while a user creates VMs through the real API
 * server.
 */
let api: TestApiServer
let processes: Processes
let webhooks: Replica
let user: Agent
let foreign: { readonly key: string; readonly cert: string }
let expensive: { readonly key: string; readonly cert: string }

beforeAll(async () => {
  api = await startApiServer()
  processes = await installProcesses(api)
  webhooks = await processes.startWebhooks('attacked')
  await waitAsLongAsPossible()
  user = new Agent({
    allowH2: false,
    connect: { ca: api.certificateAuthority, cert: api.clientCertificate, key: api.clientKey },
  })
  const { key, pem } = await issueLeaf(await createAuthority(Date.now()), ['front-proxy-client'], Date.now(), 'client')
  foreign = { key, cert: pem }
  // As many as fit into the bytes of a handshake.
  expensive = await createExpensiveChain(10)
})
afterAll(async () => {
  await user?.close()
  await processes?.stop()
  await api?.stop()
})

/** So that a create fails because it gets no fair share, and not because the host is slow. */
async function waitAsLongAsPossible(): Promise<void> {
  const patch = ['--type=json', '-p', '[{"op": "replace", "path": "/webhooks/0/timeoutSeconds", "value": 30}]']
  for (const kind of ['mutatingwebhookconfigurations', 'validatingwebhookconfigurations']) {
    await run([api.kubectl, '--kubeconfig', api.kubeconfig, 'patch', kind, 'virtset', ...patch])
  }
}

/** An address other than the API server's, as of a pod. */
const dial = (localAddress = '127.0.0.2') => connect({ host: '127.0.0.1', port: webhooks.port, localAddress })
const dialTls = (identity = {}, from?: string) =>
  connectTls({ socket: dial(from), rejectUnauthorized: false, servername: 'localhost', ...identity })

interface Attack {
  /** Resolves when each connection was established or closed once. */
  readonly underWay: Promise<unknown>
  readonly stop: () => void
}

/** Keeps `count` connections open: replaces each that is closed, at most 500 a second. */
function hold(count: number, open: () => Socket): Attack {
  const sockets = new Set<Socket>()
  let isOver = false
  const one = (established: () => void = () => {}) => {
    if (isOver) return
    const socket = open()
    sockets.add(socket)
    socket
      .on('error', () => {})
      .once(socket instanceof TLSSocket ? 'secureConnect' : 'connect', established)
      .once('close', () => {
        established()
        sockets.delete(socket)
        setTimeout(one, Math.max(500, 2 * count))
      })
  }
  const underWay = Array.from({ length: count }, () => new Promise<void>((resolve) => one(resolve)))
  return {
    underWay: Promise.all(underWay),
    stop() {
      isOver = true
      for (const socket of sockets) socket.destroy()
    },
  }
}

/** Writes a byte every 50 ms. */
function trickle(socket: Socket, bytes: string): Socket {
  let sent = 0
  const timer = setInterval(() => socket.write(bytes.charAt(sent++ % bytes.length)), 50)
  return socket.once('close', () => clearInterval(timer))
}

const send = (socket: Socket, text: string): Socket => {
  socket.write(text)
  return socket
}

/** Sends it again after each response. */
const repeat = (socket: Socket, message: string): Socket =>
  send(socket, message).on('data', () => socket.write(message))

const head = (bytes: number) =>
  `POST /mutate HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: ${bytes}\r\n\r\n`

const domain = { type: 'qemu', memory: { unit: 'MB', value: 64 }, os: { type: { os: 'hvm' } } }

/** 3 MiB that take long to process. */
const disks = Array.from({ length: 14_000 }, (_, n) => ({
  type: 'network',
  device: 'disk',
  source: { protocol: 'nbd', name: `disk-${n}`, host: { name: 'disks.default', port: '10809' } },
  target: { dev: `vd${n.toString(26).replaceAll(/\d/g, (digit) => 'qrstuvwxyz'.charAt(Number(digit)))}` },
  serial: 'x'.repeat(50),
}))
const forged = JSON.stringify({
  apiVersion: 'admission.k8s.io/v1',
  kind: 'AdmissionReview',
  request: {
    uid: 'u',
    kind: { group: 'virtset.io', version: 'v1alpha1', kind: 'VirtualMachine' },
    operation: 'CREATE',
    name: 'vm',
    namespace: 'default',
    userInfo: {},
    object: {
      apiVersion: 'virtset.io/v1alpha1',
      kind: 'VirtualMachine',
      metadata: { name: 'vm' },
      spec: { domain: { ...domain, devices: { disks } } },
    },
  },
})
const review = head(forged.length) + forged
/** Three of them are 16 MiB. */
const announced = head(5_592_404)

let created = 0
/** The API server's responses to `count` creates, one after the other. */
async function createVms(count: number): Promise<{ readonly [answer: string]: number }> {
  const answers: { [answer: string]: number } = {}
  for (let n = 0; n < count; n++) {
    const answer = await request(
      `${api.server}/apis/virtset.io/v1alpha1/namespaces/default/virtualmachines?dryRun=All`,
      {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        dispatcher: user,
        body: JSON.stringify({
          apiVersion: 'virtset.io/v1alpha1',
          kind: 'VirtualMachine',
          metadata: { name: `vm-${created}` },
          spec: { domain: { ...domain, title: `${created++}` } },
        }),
      },
    )
    const text = await answer.body.text()
    const key = answer.statusCode === 201 ? '201' : text.slice(0, 300)
    answers[key] = (answers[key] ?? 0) + 1
  }
  return answers
}

describe('all creates of a user get a response while a client without an account', () => {
  test.each<[string, () => Attack]>([
    ['announces three bodies of 5 MiB and sends nothing', () => hold(3, () => send(dialTls(), announced))],
    ['announces 2,000 bodies of 5 MiB and sends nothing', () => hold(2000, () => send(dialTls(), announced))],
    ['announces 300 small bodies and sends nothing', () => hold(300, () => send(dialTls(), head(100)))],
    ['opens 2,000 connections and sends nothing', () => hold(2000, dial)],
    [
      'stops in the middle of 500 handshakes',
      () => hold(500, () => send(dial(), '\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03')),
    ],
    ['sends handshakes byte by byte', () => hold(300, () => trickle(dial(), '\x16\x03\x01\x02\x00\x01\x00\x01\xfc'))],
    ['sends headers byte by byte', () => hold(300, () => trickle(dialTls(), 'POST /mutate HTTP/1.1\r\nx: y'))],
    ['sends bodies byte by byte', () => hold(300, () => trickle(send(dialTls(), announced), ' '))],
    ['forges reviews of 3 MiB', () => hold(30, () => repeat(dialTls(), review))],
    ['forges reviews with a certificate of their own', () => hold(30, () => repeat(dialTls(foreign), review))],
    [
      'forges reviews one behind the other on each connection',
      () => hold(10, () => repeat(dialTls(), review.repeat(5))),
    ],
    [
      'presents certificates that are expensive to verify, from 32 addresses',
      () => {
        let count = 0
        return hold(128, () => dialTls(expensive, `127.0.1.${1 + (count++ % 32)}`))
      },
    ],
    ['speaks HTTP without TLS', () => hold(300, () => send(dial(), review))],
  ])(
    '%s',
    async (_, attack) => {
      const { underWay, stop } = attack()
      await underWay
      try {
        expect(await createVms(40)).toEqual({ '201': 40 })
      } finally {
        stop()
      }
      const { oomKills } = webhooks.usage()
      expect([oomKills, webhooks.child.exitCode, webhooks.child.signalCode]).toEqual([0, null, null])
    },
    300_000,
  )

  test('and the process needs less than half of its memory limit', () => {
    expect(webhooks.usage().peakBytes).toBeLessThan(256 * 1024 * 1024)
  })
})

describe('all creates of a user get a response while another user', () => {
  const subresource = '/apis/subresources.virtset.io/v1alpha1/namespaces/default/virtualmachineconfigs/x/start'
  const dialApiServer = (more: ConnectionOptions = {}) =>
    connectTls({
      host: '127.0.0.1',
      port: Number(new URL(api.server).port),
      ca: api.certificateAuthority,
      cert: api.clientCertificate,
      key: api.clientKey,
      ALPNProtocols: ['http/1.1'],
      ...more,
    })

  /** Sends `path` again after each response, on 20 connections with 150 requests at a time. */
  function flood(path: string, token: string) {
    const codes = new Set<unknown>()
    const sessions = new Set<ClientHttp2Session>()
    let isOver = false
    const open = () => {
      if (isOver) return
      const session = connectHttp2(api.server, { ca: api.certificateAuthority })
      sessions.add(session)
      const ask = () => {
        if (session.closed || session.destroyed) return
        session
          .request({ ':path': path, authorization: `Bearer ${token}` })
          .on('response', (headers) => codes.add(headers[':status']))
          .on('error', () => {})
          .on('close', ask)
          .resume()
      }
      session
        .on('error', () => {})
        .once('connect', () => times(150, ask))
        .once('close', () => {
          sessions.delete(session)
          // The API server ends connections that have many requests refused.
          setTimeout(open, 100)
        })
    }
    times(20, open)
    const stop = () => {
      isOver = true
      for (const session of sessions) session.destroy()
    }
    return { codes, stop }
  }

  test('sends bodies byte by byte through the API server', async () => {
    const body = `POST ${subresource} HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: 60000\r\n\r\n`
    const { underWay, stop } = hold(100, () => trickle(send(dialApiServer(), body), ' '))
    await underWay
    try {
      expect(await createVms(40)).toEqual({ '201': 40 })
    } finally {
      stop()
    }
    expect(webhooks.usage().oomKills).toBe(0)
  })

  test('sends bodies in chunks and records of one byte through the API server', async () => {
    const head = `POST ${subresource} HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n`
    // Encrypted before they are sent, so that they arrive within the deadline of a body.
    const prepared = await Promise.all(
      times(16, async () => {
        const wire = connect({ host: '127.0.0.1', port: Number(new URL(api.server).port) }).on('error', () => {})
        const records: Buffer[] = []
        let isPrepared = false
        const stream = new Duplex({
          read: () => {},
          write(record: Buffer, _, done) {
            if (isPrepared) records.push(record)
            else wire.write(record)
            done()
          },
        })
        wire.on('data', (chunk) => stream.push(chunk))
        const socket = dialApiServer({ socket: stream }).on('error', () => {})
        await once(socket, 'secureConnect')
        isPrepared = true
        send(socket, head)
        for (let count = 0; count < 64_000; count++) await new Promise((done) => socket.write('1\r\n \r\n', done))
        return { wire, bytes: Buffer.concat(records) }
      }),
    )
    for (const { wire, bytes } of prepared) wire.write(bytes)
    expect(await createVms(40)).toEqual({ '201': 40 })
    for (const { wire } of prepared) wire.destroy()
    const { oomKills, peakBytes } = webhooks.usage()
    expect(oomKills).toBe(0)
    expect(peakBytes).toBeLessThan(256 * 1024 * 1024)
  })

  /** What is answered to starts, stops and discovery, `rounds` times one after the other. */
  async function usePower(rounds: number): Promise<{ readonly [answer: string]: number }> {
    const group = 'apis/subresources.virtset.io/v1alpha1'
    const configs = `${group}/namespaces/default/virtualmachineconfigs`
    const answers: { [answer: string]: number } = {}
    const ask = async (method: 'GET' | 'PUT', path: string) => {
      const { statusCode, body } = await request(`${api.server}/${path}`, { method, dispatcher: user })
      const text = await body.text()
      const key = statusCode < 300 ? `${statusCode}` : text.slice(0, 300)
      answers[key] = (answers[key] ?? 0) + 1
    }
    for (let round = 0; round < rounds; round++) {
      await ask('PUT', `${configs}/stopped/start?dryRun=All`)
      await ask('PUT', `${configs}/started/stop?dryRun=All`)
      await ask('GET', group)
    }
    return answers
  }

  // Last, because it takes more memory than the others, of which the peak is measured.
  describe('who has all rights in a namespace requests, as fast as the API server permits,', () => {
    let token: string
    beforeAll(async () => {
      const kubectl = (rest: readonly string[], input = '') =>
        run([api.kubectl, '--kubeconfig', api.kubeconfig, ...rest], { input })
      await kubectl(['create', 'namespace', 'mallory'])
      await kubectl(['create', 'serviceaccount', '-n', 'mallory', 'mallory'])
      const binding = ['rolebinding', '-n', 'mallory', 'mallory', '--clusterrole=cluster-admin']
      await kubectl(['create', ...binding, '--serviceaccount=mallory:mallory'])
      token = (await kubectl(['create', 'token', '-n', 'mallory', 'mallory'])).trim()
      const items = ['stopped', 'started'].map((name) => ({
        apiVersion: 'virtset.io/v1alpha1',
        kind: 'VirtualMachineConfig',
        metadata: { name },
        spec: { template: { spec: { domain } } },
      }))
      await kubectl(['create', '-f', '-'], JSON.stringify({ apiVersion: 'v1', kind: 'List', items }))
      await kubectl(['create', '--raw', subresource.replace('/x/', '/started/'), '-f', '/dev/null'])
    })

    // Only the first is something that exists. Starts and stops share the port of the second.
    test.each([
      ['sessions', 429, 10],
      ['subresources', 404, 0],
      ['admission', 404, 10],
    ])('sessions from the group %s.virtset.io, whose port others use', async (group, code, rounds) => {
      const session = `/apis/${group}.virtset.io/v1alpha1/namespaces/mallory/virtualmachines/x/attach/console`
      const { codes, stop } = flood(session, token)
      try {
        await until(() => codes.has(code))
        const [created, powered] = await Promise.all([
          Promise.all(times(8, () => createVms(10))),
          Promise.all(times(4, () => usePower(rounds))),
        ])
        expect(created).toEqual(times(8, () => ({ '201': 10 })))
        const answers = rounds === 0 ? {} : { '201': rounds, '202': rounds, '200': rounds }
        expect(powered).toEqual(times(4, () => answers))
      } finally {
        stop()
      }
      const { oomKills, peakBytes } = webhooks.usage()
      expect(oomKills).toBe(0)
      expect(peakBytes).toBeLessThan(448 * 1024 * 1024)
    })
  })
})

const times = <T>(count: number, make: (index: number) => T): T[] =>
  Array.from({ length: count }, (_, index) => make(index))
const listsOf = (count: number, keys: readonly string[]) =>
  Object.fromEntries(keys.map((key) => [key, times(count, () => ({}))]))

describe('all creates of a user get a response while another user sends the most expensive objects', () => {
  interface Hostile {
    readonly plural: string
    readonly body: string
  }
  const objectOf = (plural: string, kind: string, spec: object): Hostile => ({
    plural,
    body: JSON.stringify({ apiVersion: 'virtset.io/v1alpha1', kind, metadata: { name: 'hostile' }, spec }),
  })
  const vm = (hostile: object) => objectOf('virtualmachines', 'VirtualMachine', { domain: { ...domain, ...hostile } })
  const group = (hostile: object) =>
    objectOf('virtualmachinegroups', 'VirtualMachineGroup', {
      replicas: 1,
      selector: { matchLabels: { app: 'hostile' } },
      template: { metadata: { labels: { app: 'hostile' } }, spec: { domain: { ...domain, ...hostile } } },
    })

  /** The API server's words, and virtset's, for a request that took too long or was one of too many. */
  const busy = [
    /context deadline exceeded/,
    /virtset did not finish in time/,
    /request did not complete within/,
    // client-go's own words for a 504 without a Status.
    /unable to return a response in the time allotted/,
    // And for a 503: a body that did not arrive in time was cut off.
    /unable to handle the request/,
    // Go's proxy closes a connection if the response comes before it has noticed the end of a body of more than 4 KiB.
    /unexpected EOF/,
    /too many (?:admission )?requests/i,
  ]

  /**
   * Sends the same object again after each response, four at a time. Collects the status codes, with the text of
   * unexpected ones; a request of the flood itself may have to wait until it times out.
   */
  function flood(
    { plural, body }: Hostile,
    expected: number,
  ): {
    readonly answers: Set<string>
    readonly stop: () => Promise<void>
  } {
    const answers = new Set<string>()
    const path = `/apis/virtset.io/v1alpha1/namespaces/default/${plural}?dryRun=All`
    const headers = { 'content-type': 'application/json' }
    let isOver = false
    const sendAgain = async () => {
      while (!isOver) {
        const response = await request(`${api.server}${path}`, { method: 'POST', headers, dispatcher: user, body })
        const text = await response.body.text()
        const { statusCode } = response
        const isBusy = (statusCode === 429 || statusCode >= 500) && busy.some((words) => words.test(text))
        if (!isBusy) answers.add(statusCode === expected ? `${statusCode}` : `${statusCode} ${text.slice(0, 1000)}`)
      }
    }
    const all = Promise.all(times(4, sendAgain))
    return {
      answers,
      async stop() {
        isOver = true
        await all
      },
    }
  }

  const unknownFields = Object.fromEntries(times(30_000, (index) => [`k${index}`, 1]))
  const emptyDevices = {
    devices: listsOf(256, [
      'serials',
      'interfaces',
      'inputs',
      'channels',
      'rngs',
      'sounds',
      'hubs',
      'redirdevs',
      'videos',
    ]),
  }
  test.each<[string, Hostile, number]>([
    ['a VM with 30,000 unknown fields', vm(unknownFields), 422],
    ['a VM with 4,096 serial ports', vm({ devices: { serials: times(4096, () => ({ type: 'pty' })) } }), 422],
    ['a VM with nine lists of 256 empty devices', vm(emptyDevices), 422],
    ['a VM with 4 billion CPUs', vm({ vcpu: { value: 4_294_967_295 }, cpu: { numa: { cells: [{}] } } }), 422],
    ['a VM with 120 KB of metadata', vm({ metadata: `<r xmlns="urn:r">${'<a x="1" y="2"/>'.repeat(7500)}</r>` }), 201],
    ['a group whose template has 30,000 unknown fields', group(unknownFields), 422],
    ['a group whose template has nine lists of 256 empty devices', group(emptyDevices), 422],
  ])(
    '%s',
    async (_, hostile, expected) => {
      const { answers, stop } = flood(hostile, expected)
      try {
        expect(await createVms(10), lastLines(webhooks.log(), 15)).toEqual({ '201': 10 })
        await until(() => answers.size > 0, undefined, {
          deadlineMs: 240_000,
          describe: () => 'a response to the flood',
        })
      } finally {
        await stop()
      }
      const unexpected = [...answers].filter((answer) => answer !== `${expected}`)
      expect(unexpected, unexpected.join('\n')).toEqual([])
      const { oomKills } = webhooks.usage()
      expect([oomKills, webhooks.child.exitCode, webhooks.child.signalCode]).toEqual([0, null, null])
    },
    600_000,
  )
})

describe('no request of a user waits for a second while another user of the namespace sends at once 50 of', () => {
  /**
   * As the API server's aggregator sends them: how long the API server itself takes for large objects is not measured.
   */
  let aggregator: Agent
  const post = async (username: string, object: object) => {
    const { body } = await request(`https://127.0.0.1:${webhooks.port}/mutate`, {
      method: 'POST',
      headers: {
        'content-type': 'application/json',
        'x-remote-user': 'system:apiserver',
        'x-remote-group': 'system:masters',
      },
      dispatcher: aggregator,
      body: JSON.stringify({
        apiVersion: 'admission.k8s.io/v1',
        kind: 'AdmissionReview',
        request: {
          uid: 'u',
          kind: { group: 'virtset.io', version: 'v1alpha1', kind: 'VirtualMachine' },
          operation: 'CREATE',
          name: 'vm',
          namespace: 'default',
          userInfo: { username },
          object: { apiVersion: 'virtset.io/v1alpha1', kind: 'VirtualMachine', ...object },
        },
      }),
    })
    return (await body.json()) as { readonly response: { readonly allowed: boolean } }
  }
  const vmOf = (hostile: object, labels = {}) => ({
    metadata: { name: 'vm', labels },
    spec: { domain: { ...domain, ...hostile } },
  })

  beforeAll(async () => {
    const pem = (file: string) => readFileSync(join(api.directory, 'pki', file), 'utf8')
    aggregator = new Agent({
      connect: {
        cert: pem('front-proxy.crt'),
        key: pem('front-proxy.key'),
        rejectUnauthorized: false,
        servername: 'localhost',
      },
    })
    const features = (index: number) =>
      times(256, (at) => ({ name: `f${at}`, policy: index % 2 === 0 ? 'require' : 'disable' }))
    const presets = times(60, (index) => ({
      apiVersion: 'virtset.io/v1alpha1',
      kind: 'VirtualMachinePreset',
      metadata: { name: `conflict-${index}`, namespace: 'default' },
      spec: { selector: { matchLabels: { conflicts: 'many' } }, domain: { cpu: { features: features(index) } } },
    }))
    const list = JSON.stringify({ apiVersion: 'v1', kind: 'List', items: presets })
    await run([api.kubectl, '--kubeconfig', api.kubeconfig, 'create', '-f', '-'], { input: list })
  }, 300_000)
  afterAll(() => aggregator?.close())

  const chain = (depth: number): object =>
    depth === 0 ? {} : { type: 'file', source: { file: '/x' }, backingStore: chain(depth - 1) }
  const disksOf = times(26, (index) => ({
    target: { dev: `vd${String.fromCodePoint(97 + index)}` },
    backingStore: chain(100),
  }))
  const faulty = listsOf(255, ['serials', 'interfaces', 'channels', 'videos', 'hubs'])
  test.each<[string, object]>([
    ['a VM with 30,000 unknown fields', vmOf(Object.fromEntries(times(30_000, (index) => [`k${index}`, 1])))],
    ['a VM with 256 serial ports', vmOf({ devices: { serials: times(256, () => ({ type: 'pty' })) } })],
    ['a VM whose disks have backing stores 100 deep', vmOf({ devices: { disks: disksOf } })],
    ['a VM with thousands of faults', vmOf({ devices: faulty })],
    ['a VM about which 60 presets disagree', vmOf({}, { conflicts: 'many' })],
  ])(
    '%s',
    async (_, hostile) => {
      expect((await post('mallory', hostile)).response.allowed).toBe(false)
      // The API server keeps its connections open: handshakes are not measured.
      await Promise.all(times(51, () => post('jane', vmOf({}))))
      let underWay = 50
      const sent = times(underWay, async () => {
        await post('mallory', hostile)
        underWay -= 1
      })
      const waits: number[] = []
      do {
        // Measured in CPU time, so that other load on the machine does not count.
        const before = webhooks.usage().cpuSeconds
        expect((await post('jane', vmOf({ title: `${waits.length}` }))).response.allowed).toBe(true)
        waits.push(webhooks.usage().cpuSeconds - before)
      } while (underWay > 0)
      await Promise.all(sent)
      expect(Math.max(...waits)).toBeLessThan(1)
    },
    300_000,
  )
})

test('rejects admission requests of a cluster administrator through the API server', async () => {
  const path = '/apis/admission.virtset.io/v1alpha1/admissionreviews/mutate'
  const kubectl = [api.kubectl, '--kubeconfig', api.kubeconfig, 'create', '--raw', path, '-f', '-']
  const ask = (...rest: string[]) => run([...kubectl, ...rest], { input: forged }).catch(String)
  expect(await ask()).toContain('only the API server can send admission requests')
  expect(await ask('--as=jane')).toContain('User "jane" cannot create resource "admissionreviews"')
})
