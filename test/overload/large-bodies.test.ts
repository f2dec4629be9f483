import { spawn } from 'node:child_process'
import type { ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { connect } from 'node:tls'
import { Agent, request } from 'undici'
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from 'vitest'
import { createAuthority, issueLeaf } from '../../webhooks/certificates/authority.ts'
import { argumentsOf, confine, limitsOf, type Confinement } from '../confinement.ts'
import { until } from '../until.ts'
import { freePort } from '../apiserver/free-port.ts'

/** The memory of the webhooks within the limits of their manifest when large bodies arrive together, without a cluster. */
const manifest = 'manifests/webhooks/deployment.yaml'
const directory = mkdtempSync(join(tmpdir(), 'virtset-large-'))
const [cert, key] = [join(directory, 'tls.crt'), join(directory, 'tls.key')]
let child: ChildProcess
let confinement: Confinement
let agent: Agent
let authorityPem = ''
let port = 0

beforeAll(async () => {
  const authority = await createAuthority(Date.now())
  const leaf = await issueLeaf(authority, ['localhost'], Date.now())
  authorityPem = authority.pem
  writeFileSync(cert, leaf.pem)
  writeFileSync(key, leaf.key)
})
afterAll(() => rmSync(directory, { recursive: true }))

beforeEach(async () => {
  port = await freePort()
  confinement = confine(limitsOf(manifest, 'webhooks'))
  const options = ['--presets', 'manifests/examples', '--port', String(port), '--cert', cert, '--key', key]
  const command = [process.execPath, ...argumentsOf(manifest, 'webhooks'), ...options]
  const [program, ...rest] = confinement.wrap(command)
  child = spawn(program, rest, {
    stdio: ['ignore', 'ignore', 'inherit'],
    env: { ...process.env, LOG_LEVEL: 'error' },
  })
  agent = new Agent({ connect: { ca: authorityPem } })
  await until(async () => (await post('{}').catch(() => 0)) !== 0, undefined, { deadlineMs: 120_000 })
})
afterEach(async () => {
  const ended = child.exitCode !== null || child.signalCode !== null ? undefined : once(child, 'exit')
  child.kill('SIGKILL')
  await ended
  await agent.destroy()
  confinement.remove()
})

const post = async (body: string): Promise<number> => {
  const headers = { 'content-type': 'application/json' }
  const answer = await request(`https://localhost:${port}/mutate?timeout=30s`, {
    method: 'POST',
    body,
    headers,
    dispatcher: agent,
  })
  await answer.body.dump()
  return answer.statusCode
}

/** The status codes of requests with this body whose last bytes arrive together; 0 for a connection that was closed. */
async function postTogether(count: number, body: string): Promise<number[]> {
  const payload = Buffer.from(body)
  const head = `POST /mutate?timeout=30s HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: ${payload.length}\r\n\r\n`
  const sockets = await Promise.all(
    Array.from({ length: count }, async () => {
      const socket = connect({ port, host: 'localhost', ca: authorityPem })
      await once(socket, 'secureConnect')
      return socket.on('error', () => {})
    }),
  )
  const codes = sockets.map(async (socket) => {
    const [answer] = await Promise.race([once(socket, 'data'), once(socket, 'close')])
    return Buffer.isBuffer(answer) ? Number(answer.toString('latin1', 9, 12)) : 0
  })
  const write = (bytes: string | Buffer) =>
    Promise.all(sockets.map((socket) => new Promise<void>((resolve) => socket.write(bytes, () => resolve()))))
  await write(head)
  await write(payload.subarray(0, -1))
  await write(payload.subarray(-1))
  const found = await Promise.all(codes)
  for (const socket of sockets) socket.destroy()
  return found
}

const review = (domain: object): string => {
  const object = {
    apiVersion: 'virtset.io/v1alpha1',
    kind: 'VirtualMachine',
    metadata: { name: 'vm' },
    spec: { domain: { type: 'qemu', memory: { unit: 'MB', value: 64 }, os: { type: { os: 'hvm' } }, ...domain } },
  }
  const kind = { group: 'virtset.io', version: 'v1alpha1', kind: 'VirtualMachine' }
  const asked = { uid: 'u', kind, operation: 'CREATE', name: 'vm', namespace: 'default', userInfo: {}, object }
  return JSON.stringify({ apiVersion: 'admission.k8s.io/v1', kind: 'AdmissionReview', request: asked })
}

/** 2.9 MiB of many objects, which take more memory than text. */
const disks = Array.from({ length: 14_000 }, (_, index) => ({
  type: 'network',
  device: 'disk',
  source: { protocol: 'nbd', name: `disk-${index}`, host: { name: 'disks.default', port: '10809' } },
  target: { dev: `vd${index.toString(26).replaceAll(/\d/g, (digit) => 'qrstuvwxyz'.charAt(Number(digit)))}` },
  serial: 'x'.repeat(50),
}))

const dense = (kilobytes: number) => review({ x: Array.from({ length: (kilobytes * 1000) / 3 }, () => ({})) })

test.each([
  ['50 of 14,000 disks', 50, review({ devices: { disks } })],
  // 3 MiB of them would take 60 MiB of heap.
  ['20 of 2.9 MB of empty objects', 20, dense(2900)],
  ['80 of 240 KB of empty objects', 80, dense(240)],
  ['240 of 62 KB of empty objects', 240, dense(62)],
])(
  '%s at once stay under the limits',
  async (_, count, body) => {
    const codes = await postTogether(count, body)
    // Each gets a response: a result, or a rejection at once.
    expect(codes.filter((code) => ![200, 429].includes(code))).toEqual([])
    expect(await post(review({}))).toBe(200)
    const { oomKills, peakBytes } = confinement.usage()
    expect(oomKills).toBe(0)
    expect(peakBytes).toBeLessThan(limitsOf(manifest, 'webhooks').memoryBytes ?? 0)
  },
  120_000,
)
