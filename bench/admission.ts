import { spawn } from 'node:child_process'
import type { ChildProcess } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { createInterface } from 'node:readline'
import { parseArgs } from 'node:util'
import jsonPatch from 'fast-json-patch'
import { Client } from 'undici'

/**
 * The cost of an admission request: the webhooks with 0 to 10,000 presets (3 match), compared with handlers on the same
 * server that only allow, or that send a constant patch of the same size. Over HTTPS on loopback, in interleaved
 * rounds; one connection for latency, 32 for throughput and CPU; a VM of 0.8 KB and one of 22 KB. Each request has
 * another name, uid and spec.
 *
 *     node bench/admission.ts [--rounds N] [--json]
 */
const { values } = parseArgs({ options: { json: { type: 'boolean' }, rounds: { type: 'string', default: '5' } } })
const rounds = Number(values.rounds)
const latencyRequests = 150
const throughputMs = 400
const connections = 32

interface Server {
  readonly name: string
  readonly process: ChildProcess
  readonly clients: readonly Client[]
}

interface Figures {
  readonly server: string
  readonly path: string
  readonly vm: string
  readonly samplesUs: number[]
  readonly rates: number[]
  readonly cpuUs: number[]
}

const disk = (index: number) => ({
  type: 'network',
  device: 'disk',
  driver: { name: 'qemu', type: 'raw', cache: 'none' },
  source: {
    protocol: 'iscsi',
    name: `iqn.2017-01.io.example:sn.42/${index}`,
    host: { name: 'target.default', port: '3260' },
  },
  target: {
    dev: `vd${String.fromCharCode(97 + (index % 26))}${index < 26 ? '' : String.fromCharCode(97 + Math.floor(index / 26) - 1)}`,
  },
})

/** Placeholders for a number that differs in each request. */
const nameDigits = '111111111111'
const specDigits = '222222222222'

/** An AdmissionReview of a VM as JSON: 0.8 KB with 1 disk, 22 KB with 24 disks and a long description. */
function review(disks: number, text: number): string {
  const domain = {
    type: 'qemu',
    memory: { unit: 'MB', value: 64 },
    os: { type: { os: 'hvm' } },
    title: specDigits,
    description: 'x'.repeat(text),
    devices: { disks: Array.from({ length: disks }, (_, index) => disk(index)) },
  }
  const object = {
    apiVersion: 'virtset.io/v1alpha1',
    kind: 'VirtualMachine',
    metadata: { name: `vm-${nameDigits}`, namespace: 'default', labels: { bench: 'yes' } },
    spec: { domain },
  }
  const request = {
    uid: `705ab4f5-6393-11e8-b7cc-${nameDigits}`,
    kind: { group: 'virtset.io', version: 'v1alpha1', kind: 'VirtualMachine' },
    operation: 'CREATE',
    name: `vm-${nameDigits}`,
    namespace: 'default',
    userInfo: { username: 'jane', groups: ['system:authenticated'] },
    object,
  }
  return JSON.stringify({ apiVersion: 'admission.k8s.io/v1', kind: 'AdmissionReview', request })
}

const vms = { '0.8 KB': review(1, 1), '22 KB': review(24, 15_000) }

/** The body of the next request. */
type Bodies = () => string

let sent = 0
const digits = (): string => String(sent++).padStart(12, '0')
/** Each VM has another name and spec. */
const next =
  (review: string): Bodies =>
  () =>
    review.replaceAll(nameDigits, digits()).replace(specDigits, digits())

async function start(name: string): Promise<Server> {
  const child = spawn(process.execPath, [new URL('./admission-server.ts', import.meta.url).pathname, name], {
    stdio: ['pipe', 'pipe', 'inherit'],
  })
  for await (const line of createInterface(child.stdout)) {
    const { port, authority }: { port: number; authority: string } = JSON.parse(line)
    const connect = () => new Client(`https://localhost:${port}`, { connect: { ca: authority } })
    return { name, process: child, clients: Array.from({ length: connections }, connect) }
  }
  throw new Error(`the server ${name} printed nothing`)
}

async function send(client: Client, path: string, body: string): Promise<void> {
  const response = await client.request({ path, method: 'POST', body, headers: { 'content-type': 'application/json' } })
  const text = await response.body.text()
  if (!text.includes('"allowed":true')) throw new Error(text.slice(0, 500))
}

/** The request that follows at `/validate`: the VM as `/mutate` has just completed it. */
async function completed({ clients: [client] }: Server, body: string): Promise<Bodies> {
  if (client === undefined) return () => body
  const mutated = await client.request({
    path: '/mutate',
    method: 'POST',
    body,
    headers: { 'content-type': 'application/json' },
  })
  const { response }: { response: { patch?: string } } = JSON.parse(await mutated.body.text())
  const review = JSON.parse(body)
  const operations = JSON.parse(Buffer.from(response.patch ?? '', 'base64').toString() || '[]')
  jsonPatch.applyPatch(review.request.object, operations)
  const text = JSON.stringify(review)
  return () => text
}

async function measure({ clients: [client] }: Server, figures: Figures, bodies: Bodies): Promise<void> {
  if (client === undefined) return
  for (let count = 0; count < 20; count++) await send(client, figures.path, bodies())
  for (let count = 0; count < latencyRequests; count++) {
    const body = bodies()
    const startedMs = performance.now()
    await send(client, figures.path, body)
    figures.samplesUs.push((performance.now() - startedMs) * 1000)
  }
}

/** User and system time of a process and its threads, from fields 14 and 15 of /proc/PID/stat, in ticks of 10 ms. */
function cpuUsOf({ pid }: ChildProcess): number {
  const fields = readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ')[1]?.split(' ') ?? []
  return (Number(fields[11]) + Number(fields[12])) * 10_000
}

async function load({ clients, process: child }: Server, figures: Figures, bodies: Bodies): Promise<void> {
  const startedMs = performance.now()
  const startedUs = cpuUsOf(child)
  let done = 0
  const worker = async (client: Client) => {
    while (performance.now() - startedMs < throughputMs) {
      await send(client, figures.path, bodies())
      done++
    }
  }
  await Promise.all(clients.map(worker))
  figures.rates.push((done / (performance.now() - startedMs)) * 1000)
  figures.cpuUs.push((cpuUsOf(child) - startedUs) / done)
}

const quantile = (samples: readonly number[], at: number): number =>
  samples.toSorted((a, b) => a - b)[Math.min(samples.length - 1, Math.floor(samples.length * at))] ?? 0

const servers: Server[] = []
for (const name of ['echo', 'constant', '0', '100', '1000', '10000']) servers.push(await start(name))
const all: Figures[] = []
const figuresOf = (server: string, path: string, vm: string): Figures => {
  const found = all.find((of) => of.server === server && of.path === path && of.vm === vm)
  if (found) return found
  const made = { server, path, vm, samplesUs: [], rates: [], cpuUs: [] }
  all.push(made)
  return made
}
for (let round = 0; round <= rounds; round++) {
  // The first round warms up.
  if (round === 1) all.length = 0
  for (const [size, body] of Object.entries(vms)) {
    for (const server of servers) {
      const validated = await completed(server, next(body)())
      const tasks: [string, string, Bodies][] = [
        ['/mutate', size, next(body)],
        ['/validate', size, validated],
      ]
      for (const [path, vm, bodies] of tasks) {
        const figures = figuresOf(server.name, path, vm)
        await measure(server, figures, bodies)
        await load(server, figures, bodies)
      }
    }
  }
}
for (const { process: child, clients } of servers) {
  await Promise.all(clients.map((client) => client.close()))
  child.stdin?.end()
}

const rows = all.map(({ server, path, vm, samplesUs, rates, cpuUs }) => ({
  server: /^\d/.test(server) ? `${server} presets` : server,
  path,
  vm,
  p50Us: Math.round(quantile(samplesUs, 0.5)),
  p99Us: Math.round(quantile(samplesUs, 0.99)),
  perSecond: Math.round(quantile(rates, 0.5)),
  cpuUs: Math.round(quantile(cpuUs, 0.5)),
  timesEcho: Math.round((quantile(samplesUs, 0.5) / quantile(figuresOf('echo', path, vm).samplesUs, 0.5)) * 100) / 100,
}))
if (values.json)
  console.log(JSON.stringify({ bytes: { small: vms['0.8 KB'].length, large: vms['22 KB'].length }, rows }))
else console.table(rows)
