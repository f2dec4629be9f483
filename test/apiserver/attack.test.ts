import { connect } from 'node:net'
import type { Socket } from 'node:net'
import { connect as connectTls, TLSSocket } from 'node:tls'
import { Agent, request } from 'undici'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { run } from '../../cluster/command.ts'
import { createAuthority, issueLeaf } from '../../webhooks/authority.ts'
import { startApiServer } from './apiserver.ts'
import type { TestApiServer } from './apiserver.ts'
import { installProcesses } from './processes.ts'
import type { Processes, Replica } from './processes.ts'

/** Attacks on the real webhooks, within the memory of their manifest, while a user creates VMs through the real API server. */
let api: TestApiServer
let processes: Processes
let webhooks: Replica
let user: Agent
let foreign: { readonly key: string; readonly cert: string }

beforeAll(async () => {
  api = await startApiServer()
  processes = await installProcesses(api)
  webhooks = await processes.startWebhooks('attacked')
  user = new Agent({
    allowH2: false,
    connect: { ca: api.certificateAuthority, cert: api.clientCertificate, key: api.clientKey },
  })
  const { key, pem } = await issueLeaf(await createAuthority(Date.now()), ['front-proxy-client'], Date.now(), 'client')
  foreign = { key, cert: pem }
})
afterAll(async () => {
  await user?.close()
  await processes?.stop()
  await api?.stop()
})

/** Another address than the API server's, as a pod has it. */
const dial = () => connect({ host: '127.0.0.1', port: webhooks.port, localAddress: '127.0.0.2' })
const dialTls = (identity = {}) =>
  connectTls({ socket: dial(), rejectUnauthorized: false, servername: 'localhost', ...identity })

interface Attack {
  /** Resolves when each connection was established, or closed, once. */
  readonly underWay: Promise<unknown>
  readonly stop: () => void
}

/** Keeps `count` connections open: for each that is closed it opens another one, 500 a second at most. */
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

/** Sends it again after each answer. */
const repeat = (socket: Socket, message: string): Socket =>
  send(socket, message).on('data', () => socket.write(message))

const head = (bytes: number) =>
  `POST /mutate HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: ${bytes}\r\n\r\n`

const domain = { type: 'qemu', memory: { unit: 'MB', value: 64 }, os: { type: { os: 'hvm' } } }

/** 3 MiB that take a while. */
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
/** What the API server answers to `count` creates, one after the other. */
async function createMachines(count: number): Promise<{ readonly [answer: string]: number }> {
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

describe('all creates of a user are answered while somebody without an account', () => {
  test.each<[string, () => Attack]>([
    ['announces three bodies of 5 MiB and sends nothing', () => hold(3, () => send(dialTls(), announced))],
    ['announces 2,000 bodies of 5 MiB and sends nothing', () => hold(2000, () => send(dialTls(), announced))],
    ['announces 300 small bodies and sends nothing', () => hold(300, () => send(dialTls(), head(100)))],
    ['opens 2,000 connections and says nothing', () => hold(2000, dial)],
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
    ['speaks HTTP without TLS', () => hold(300, () => send(dial(), review))],
  ])(
    '%s',
    async (_, attack) => {
      const { underWay, stop } = attack()
      await underWay
      try {
        expect(await createMachines(100)).toEqual({ '201': 100 })
      } finally {
        stop()
      }
      const { oomKills } = webhooks.usage()
      expect([oomKills, webhooks.child.exitCode, webhooks.child.signalCode]).toEqual([0, null, null])
    },
    120_000,
  )

  test('and the process needs less than half of the memory that its manifest gives', () => {
    expect(webhooks.usage().peakBytes).toBeLessThan(256 * 1024 * 1024)
  })
})

describe('all creates of a user are answered while another user', () => {
  const subresource = '/apis/subresources.virtset.io/v1alpha1/namespaces/default/virtualmachineconfigs/x/start'
  const dialApiServer = () =>
    connectTls({
      host: '127.0.0.1',
      port: Number(new URL(api.server).port),
      ca: api.certificateAuthority,
      cert: api.clientCertificate,
      key: api.clientKey,
      ALPNProtocols: ['http/1.1'],
    })

  test('sends bodies byte by byte through the API server', async () => {
    const body = `POST ${subresource} HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: 60000\r\n\r\n`
    const { underWay, stop } = hold(100, () => trickle(send(dialApiServer(), body), ' '))
    await underWay
    try {
      expect(await createMachines(100)).toEqual({ '201': 100 })
    } finally {
      stop()
    }
    expect(webhooks.usage().oomKills).toBe(0)
  })
})

test('who may do everything in the cluster gets no review through the API server either', async () => {
  const path = '/apis/subresources.virtset.io/v1alpha1/admissionreviews/mutate'
  const kubectl = [api.kubectl, '--kubeconfig', api.kubeconfig, 'create', '--raw', path, '-f', '-']
  const ask = (...rest: string[]) => run([...kubectl, ...rest], { input: forged }).catch(String)
  expect(await ask()).toContain('only the API server may send reviews')
  expect(await ask('--as=jane')).toContain('User "jane" cannot create resource "admissionreviews"')
})
