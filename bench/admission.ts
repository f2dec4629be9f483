import { spawn } from 'node:child_process'
import type { ChildProcess } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { createInterface } from 'node:readline'
import { parseArgs } from 'node:util'
import jsonPatch from 'fast-json-patch'
import { Client } from 'undici'

/**
 * What a review costs: the webhooks with 0 to 10,000 presets (3 match) beside a handler that only says yes on the same server, and one that says as
 * much as they do without working it out, over HTTPS on
 * loopback, in interleaved rounds. One connection for latency, 32 for throughput and CPU; a VM of 0.8 KB and one of 22 KB. No two requests are the same: VMs that
 * are `alike` differ in name and uid, as a group's replicas do, `new` ones in their spec too.
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
  readonly machine: string
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

/** Digits in the place of a number that is another one in each request. */
const placeOfName = '111111111111'
const placeOfSpec = '222222222222'

/** As JSON in a review; 1 disk makes 0.8 KB, 24 disks and a long title 22 KB. */
function review(disks: number, text: number): string {
  const domain = {
    type: 'qemu',
    memory: { unit: 'MB', value: 64 },
    os: { type: { os: 'hvm' } },
    title: `${placeOfSpec}${'x'.repeat(text)}`,
    devices: { disks: Array.from({ length: disks }, (_, index) => disk(index)) },
  }
  const object = {
    apiVersion: 'virtset.io/v1alpha1',
    kind: 'VirtualMachine',
    metadata: { name: `vm-${placeOfName}`, namespace: 'default', labels: { bench: 'yes' } },
    spec: { domain },
  }
  const request = {
    uid: `705ab4f5-6393-11e8-b7cc-${placeOfName}`,
    kind: { group: 'virtset.io', version: 'v1alpha1', kind: 'VirtualMachine' },
    operation: 'CREATE',
    name: `vm-${placeOfName}`,
    namespace: 'default',
    userInfo: { username: 'jane', groups: ['system:authenticated'] },
    object,
  }
  return JSON.stringify({ apiVersion: 'admission.k8s.io/v1', kind: 'AdmissionReview', request })
}

const machines = { '0.8 KB': review(1, 1), '22 KB': review(24, 15_000) }

/** The body of the next request. */
type Bodies = () => string

let sent = 0
const digits = (): string => String(sent++).padStart(12, '0')
/** Each VM has a name and a spec of its own. */
const next =
  (review: string): Bodies =>
  () =>
    review.replaceAll(placeOfName, digits()).replace(placeOfSpec, digits())

async function start(name: string): Promise<Server> {
  const child = spawn(process.execPath, [new URL('admission-server.ts', import.meta.url).pathname, name], {
    stdio: ['pipe', 'pipe', 'inherit'],
  })
  for await (const line of createInterface(child.stdout)) {
    const { port, authority }: { port: number; authority: string } = JSON.parse(line)
    const connect = () => new Client(`https://localhost:${port}`, { connect: { ca: authority } })
    return { name, process: child, clients: Array.from({ length: connections }, connect) }
  }
  throw new Error(`the server ${name} said nothing`)
}

async function ask(client: Client, path: string, body: string): Promise<void> {
  const answer = await client.request({ path, method: 'POST', body, headers: { 'content-type': 'application/json' } })
  const text = await answer.body.text()
  if (!text.includes('"allowed":true')) throw new Error(text.slice(0, 500))
}

/** What the API server asks `/validate`: the VM as `/mutate` has just completed it. */
async function completed({ clients: [client] }: Server, body: string): Promise<Bodies> {
  if (client === undefined) return () => body
  const answer = await client.request({
    path: '/mutate',
    method: 'POST',
    body,
    headers: { 'content-type': 'application/json' },
  })
  const { response }: { response: { patch?: string } } = JSON.parse(await answer.body.text())
  const review = JSON.parse(body)
  const operations = JSON.parse(Buffer.from(response.patch ?? '', 'base64').toString() || '[]')
  jsonPatch.applyPatch(review.request.object, operations)
  const text = JSON.stringify(review)
  return () => text
}

async function measure({ clients: [client] }: Server, figures: Figures, bodies: Bodies): Promise<void> {
  if (client === undefined) return
  for (let count = 0; count < 20; count++) await ask(client, figures.path, bodies())
  for (let count = 0; count < latencyRequests; count++) {
    const body = bodies()
    const startedMs = performance.now()
    await ask(client, figures.path, body)
    figures.samplesUs.push((performance.now() - startedMs) * 1000)
  }
}

/** User and system time of a process and all its threads, in ticks of 10 ms: fields 14 and 15 of its line, which begins with a name in brackets. */
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
      await ask(client, figures.path, bodies())
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
const figuresOf = (server: string, path: string, machine: string): Figures => {
  const found = all.find((of) => of.server === server && of.path === path && of.machine === machine)
  if (found) return found
  const made = { server, path, machine, samplesUs: [], rates: [], cpuUs: [] }
  all.push(made)
  return made
}
for (let round = 0; round <= rounds; round++) {
  // The first round is for warming up.
  if (round === 1) all.length = 0
  for (const [size, body] of Object.entries(machines)) {
    for (const server of servers) {
      const validated = await completed(server, next(body)())
      const tasks: [string, string, Bodies][] = [
        ['/mutate', size, next(body)],
        ['/validate', size, validated],
      ]
      for (const [path, machine, bodies] of tasks) {
        const figures = figuresOf(server.name, path, machine)
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

const rows = all.map(({ server, path, machine, samplesUs, rates, cpuUs }) => ({
  server: /^\d/.test(server) ? `${server} presets` : server,
  path,
  machine,
  p50Us: Math.round(quantile(samplesUs, 0.5)),
  p99Us: Math.round(quantile(samplesUs, 0.99)),
  perSecond: Math.round(quantile(rates, 0.5)),
  cpuUs: Math.round(quantile(cpuUs, 0.5)),
  timesEcho:
    Math.round((quantile(samplesUs, 0.5) / quantile(figuresOf('echo', path, machine).samplesUs, 0.5)) * 100) / 100,
}))
if (values.json)
  console.log(JSON.stringify({ bytes: { small: machines['0.8 KB'].length, large: machines['22 KB'].length }, rows }))
else console.table(rows)
