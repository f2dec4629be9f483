import { spawn } from 'node:child_process'
import type { ChildProcess } from 'node:child_process'
import { createInterface } from 'node:readline'
import { parseArgs } from 'node:util'
import { Client } from 'undici'
import { run } from '../cluster/command.ts'
import { startApiServer } from '../test/apiserver/apiserver.ts'
import { installKinds } from '../test/apiserver/kinds.ts'
import { histogram } from './api-server-metrics.ts'
import { seed } from './seed.ts'

/**
 * The cost of a mutating webhook at a real API server: dry-run creates of a VM of 0.8 KB over one connection, in
 * interleaved rounds, measured by the API server's own metrics of its mutating step and of the call. Compares no
 * webhook, one that only allows, one that sets three fields, one that applies 100 presets, one that sends the patch of a
 * completion without completing, and the whole completion, with VMs that all differ. Requires KUBE_BIN_DIR
 * (`make binaries`).
 *
 *     node bench/admission-apiserver.ts [--rounds N] [--json]
 */
const { values } = parseArgs({ options: { json: { type: 'boolean' }, rounds: { type: 'string', default: '8' } } })
const rounds = Number(values.rounds)
const requestsARound = 60
const handlers = ['none', 'echo', 'naive', 'inject-100', 'constant', '100'] as const

interface Handler {
  readonly process: ChildProcess
  readonly url: string
  readonly caBundle: string
}

async function start(name: string): Promise<Handler> {
  const child = spawn(process.execPath, [new URL('./admission-server.ts', import.meta.url).pathname, name], {
    stdio: ['pipe', 'pipe', 'inherit'],
  })
  for await (const line of createInterface(child.stdout)) {
    const { port, authority }: { port: number; authority: string } = JSON.parse(line)
    const caBundle = Buffer.from(authority).toString('base64')
    return { process: child, url: `https://localhost:${port}/mutate`, caBundle }
  }
  throw new Error(`the server ${name} printed nothing`)
}

let sent = 0
const vm = (name: string) => ({
  apiVersion: 'virtset.io/v1alpha1',
  kind: 'VirtualMachine',
  metadata: { name: 'vm', labels: { bench: 'yes', handler: name } },
  spec: { domain: { ...seed, title: `${sent++}` } },
})

const api = await startApiServer()
const servers: Handler[] = []
try {
  await installKinds(api)
  const webhooks = []
  for (const name of handlers.filter((one) => one !== 'none')) {
    const { caBundle, url, process: child } = await start(name)
    servers.push({ caBundle, url, process: child })
    webhooks.push({
      name: `${name}.bench.virtset.io`,
      admissionReviewVersions: ['v1'],
      sideEffects: 'None',
      clientConfig: { caBundle, url },
      objectSelector: { matchLabels: { handler: name } },
      rules: [
        { apiGroups: ['virtset.io'], apiVersions: ['*'], operations: ['CREATE'], resources: ['virtualmachines'] },
      ],
    })
  }
  const kind = 'MutatingWebhookConfiguration'
  const configuration = { apiVersion: 'admissionregistration.k8s.io/v1', kind, metadata: { name: 'bench' }, webhooks }
  await run([api.kubectl, '--kubeconfig', api.kubeconfig, 'apply', '-f', '-'], { input: JSON.stringify(configuration) })
  const client = new Client(api.server, {
    connect: { ca: api.certificateAuthority, cert: api.clientCertificate, key: api.clientKey },
  })
  const get = async () => (await client.request({ method: 'GET', path: '/metrics' })).body.text()
  const create = async (name: string): Promise<string> => {
    const response = await client.request({
      method: 'POST',
      path: '/apis/virtset.io/v1alpha1/namespaces/default/virtualmachines?dryRun=All',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify(vm(name)),
    })
    const text = await response.body.text()
    if (response.statusCode !== 201) throw new Error(text.slice(0, 500))
    return text
  }
  // The API server needs a moment to load the configuration.
  for (const name of ['naive', '100']) while (!(await create(name)).includes('"serials"')) await create(name)

  const figures = new Map(
    handlers.map((name) => [name, { stepMs: [] as number[], callMs: [] as number[], wholeMs: [] as number[] }]),
  )
  for (let round = 0; round <= rounds; round++) {
    for (const name of handlers) {
      for (let count = 0; count < 5; count++) await create(name)
      const before = await get()
      const startedMs = performance.now()
      for (let count = 0; count < requestsARound; count++) await create(name)
      const wholeMs = (performance.now() - startedMs) / requestsARound
      const after = await get()
      const mean = (metric: string, labels: readonly string[]) => {
        const [from, to] = [histogram(before, metric, labels), histogram(after, metric, labels)]
        return to.count === from.count ? 0 : (to.sumMs - from.sumMs) / (to.count - from.count)
      }
      // The first round warms up.
      if (round === 0) continue
      const of = figures.get(name)
      of?.wholeMs.push(wholeMs)
      of?.stepMs.push(
        mean('apiserver_admission_step_admission_duration_seconds', ['operation="CREATE"', 'type="admit"']),
      )
      of?.callMs.push(
        mean('apiserver_admission_webhook_admission_duration_seconds', [`name="${name}.bench.virtset.io"`]),
      )
    }
  }
  await client.close()
  const median = (list: readonly number[]) => list.toSorted((a, b) => a - b)[Math.floor(list.length / 2)] ?? 0
  const naive = median(figures.get('naive')?.stepMs ?? [])
  const rounded = (value: number) => Math.round(value * 100) / 100
  const rows = [...figures].map(([handler, { stepMs, callMs, wholeMs }]) => ({
    handler,
    stepMs: rounded(median(stepMs)),
    callMs: rounded(median(callMs)),
    createMs: rounded(median(wholeMs)),
    timesNaive: rounded(median(stepMs) / naive),
  }))
  if (values.json) console.log(JSON.stringify({ rounds, requestsARound, rows }))
  else console.table(rows)
} finally {
  for (const { process: child } of servers) child.stdin?.end()
  await api.stop()
}
