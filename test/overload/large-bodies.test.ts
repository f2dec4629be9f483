import { spawn } from 'node:child_process'
import type { ChildProcess } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Agent, request } from 'undici'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { parseAllDocuments } from 'yaml'
import { createAuthority, issueLeaf } from '../../webhooks/certificates/authority.ts'
import { until } from '../until.ts'
import { freePort } from '../apiserver/free-port.ts'

/** The memory of the webhooks when large bodies arrive together, without a cluster. */
const directory = mkdtempSync(join(tmpdir(), 'virtset-large-'))
let child: ChildProcess
let agent: Agent
let port = 0

beforeAll(async () => {
  const authority = await createAuthority(Date.now())
  const leaf = await issueLeaf(authority, ['localhost'], Date.now())
  const [cert, key] = [join(directory, 'tls.crt'), join(directory, 'tls.key')]
  writeFileSync(cert, leaf.pem)
  writeFileSync(key, leaf.key)
  port = await freePort()
  const main = [
    'webhooks/main.ts',
    '--presets',
    'manifests/examples',
    '--port',
    String(port),
    '--cert',
    cert,
    '--key',
    key,
  ]
  child = spawn(process.execPath, main, {
    stdio: ['ignore', 'ignore', 'inherit'],
    env: { ...process.env, LOG_LEVEL: 'error' },
  })
  agent = new Agent({ connect: { ca: authority.pem, timeout: 60_000 }, connections: 50 })
  await until(async () => (await post('{}').catch(() => 0)) !== 0, undefined, { deadlineMs: 120_000 })
})
afterAll(async () => {
  child?.kill('SIGKILL')
  await agent?.close()
  rmSync(directory, { recursive: true })
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

interface Manifest {
  readonly kind: string
  readonly spec?: {
    readonly template: {
      readonly spec: { readonly containers: readonly { readonly resources: { readonly limits: { memory: string } } }[] }
    }
  }
}

test('fifty large bodies at once stay under the memory limit of the manifest', async () => {
  const [deployment] = parseAllDocuments(readFileSync('manifests/webhooks/deployment.yaml', 'utf8'))
    .map((document): Manifest => document.toJS())
    .filter(({ kind }) => kind === 'Deployment')
  const limit = deployment?.spec?.template.spec.containers[0]?.resources.limits.memory ?? ''
  const body = review({ devices: { disks } })
  const codes = await Promise.all(Array.from({ length: 50 }, () => post(body)))
  const peakKiB = Number(/VmHWM:\s+(\d+) kB/.exec(readFileSync(`/proc/${child.pid}/status`, 'utf8'))?.[1])
  expect(limit).toMatch(/^\d+Mi$/)
  expect([body.length > 2_900_000, peakKiB / 1024 < Number.parseInt(limit, 10)]).toEqual([true, true])
  // Each gets a response: a result, or a rejection at once.
  expect(codes.filter((code) => ![200, 429].includes(code))).toEqual([])
}, 120_000)
