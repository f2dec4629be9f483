import { spawn } from 'node:child_process'
import type { ChildProcess } from 'node:child_process'
import { createInterface } from 'node:readline'
import { parseArgs } from 'node:util'
import { Pool } from 'undici'
import type { Target } from '../api/object-preset.ts'
import { groupOf, versionOf } from '../api/preset-target.ts'
import { run } from '../cluster/command.ts'
import { startApiServer } from '../test/apiserver/apiserver.ts'
import { kubevirtCrds, kubevirtModule } from '../test/kubevirt/module.ts'
import { until } from '../test/until.ts'
import { histogram } from './api-server-metrics.ts'
import { fieldsOf, objectOf, policiesFor, resourceOf, targets } from './objects-policy.ts'

/**
 * What presets for objects of other kinds cost at a real API server: dry-run creates of Pods and KubeVirt's
 * VirtualMachineInstances, in interleaved rounds. Compares no webhook, one that only allows, one that sets three fields,
 * 100 and 1,000 presets that set these fields, and 100 MutatingAdmissionPolicies that do. `unselected` is an object that
 * no preset selects; `none` is the same object while no webhook is registered. Needs KUBE_BIN_DIR (`make binaries`), Go,
 * and once the module of KubeVirt.
 *
 *     node bench/objects.ts [--rounds N] [--requests N] [--json]
 */
const { values } = parseArgs({
  options: {
    json: { type: 'boolean' },
    rounds: { type: 'string', default: '8' },
    requests: { type: 'string', default: '100' },
  },
})
const rounds = Number(values.rounds)
const requests = Number(values.requests)
const connections = 4

interface Handler {
  readonly process: ChildProcess
  readonly webhooks: readonly object[]
}

const servers: Handler[] = []

async function start(name: string, kubeconfig: string): Promise<Handler> {
  const file = new URL('./objects-server.ts', import.meta.url).pathname
  const child = spawn(process.execPath, [file, name, kubeconfig], { stdio: ['pipe', 'pipe', 'inherit'] })
  for await (const line of createInterface(child.stdout)) {
    const printed: { port: number; authority: string; webhooks: { name: string }[] } = JSON.parse(line)
    const clientConfig = {
      caBundle: Buffer.from(printed.authority).toString('base64'),
      url: `https://localhost:${printed.port}/mutate`,
    }
    const webhooks = printed.webhooks.map((webhook) => ({ ...webhook, name: `p${name}.${webhook.name}`, clientConfig }))
    return {
      process: child,
      webhooks: webhooks.length > 0 ? webhooks : targets.map((one) => simple(one, name, clientConfig)),
    }
  }
  throw new Error(`the server ${name} printed nothing`)
}

const simple = ({ apiVersion, kind }: Target, name: string, clientConfig: object) => ({
  name: `${name}.${resourceOf(kind)}.bench.virtset.io`,
  admissionReviewVersions: ['v1'],
  sideEffects: 'None',
  clientConfig,
  objectSelector: { matchLabels: { handler: name } },
  rules: [
    {
      apiGroups: [groupOf(apiVersion)],
      apiVersions: [versionOf(apiVersion)],
      operations: ['CREATE'],
      resources: [resourceOf(kind)],
    },
  ],
})

/** The labels by which the API server decides what it calls for an object. */
const labelsFor = {
  none: { handler: 'none' },
  unselected: { handler: 'none' },
  echo: { handler: 'echo' },
  naive: { handler: 'naive' },
  'presets 100': { 'presets-100': 'bench' },
  'presets 1000': { 'presets-1000': 'bench' },
  'policies 100': { policies: 'bench' },
} as const satisfies Readonly<Record<string, object>>
type Name = keyof typeof labelsFor

/** The API server's histogram of its mutating step. */
const step = 'apiserver_admission_step_admission_duration_seconds'
const ofCreate = ['operation="CREATE"', 'type="admit"']

const api = await startApiServer()
try {
  const apply = (objects: readonly object[], verb = 'apply') =>
    run([api.kubectl, '--kubeconfig', api.kubeconfig, verb, '-f', '-'], {
      input: JSON.stringify({ apiVersion: 'v1', kind: 'List', items: objects }),
    })
  await apply([...kubevirtCrds(kubevirtModule())])
  await apply([
    { apiVersion: 'v1', kind: 'ServiceAccount', metadata: { name: 'default' } },
    { apiVersion: 'node.k8s.io/v1', kind: 'RuntimeClass', metadata: { name: 'sandbox' }, handler: 'sandbox' },
  ])
  const pool = new Pool(api.server, {
    connections,
    connect: { ca: api.certificateAuthority, cert: api.clientCertificate, key: api.clientKey },
  })
  const metrics = async () => (await pool.request({ method: 'GET', path: '/metrics' })).body.text()
  let sent = 0
  const create = async (target: Target, name: Name): Promise<string> => {
    const { apiVersion, kind } = target
    const prefix = groupOf(apiVersion) === '' ? '/api' : '/apis'
    const object = objectOf(target, { ...labelsFor[name], sequence: `${sent++}` })
    const { statusCode, body } = await pool.request({
      method: 'POST',
      path: `${prefix}/${apiVersion}/namespaces/default/${resourceOf(kind)}?dryRun=All`,
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify(object),
    })
    const text = await body.text()
    if (statusCode !== 201) throw new Error(text.slice(0, 500))
    return text
  }
  const isDone = async (target: Target, name: Name): Promise<boolean> => {
    const { spec } = JSON.parse(await create(target, name))
    return fieldsOf(target.kind).every(([path, value]) => spec[path[1] ?? ''] === value)
  }
  const become = (name: Name, wanted: boolean) =>
    until(
      async () => {
        const done = await Promise.all(targets.map((target) => isDone(target, name).catch(() => !wanted)))
        return done.every((one) => one === wanted)
      },
      undefined,
      { deadlineMs: 300_000 },
    )
  await until(
    () =>
      create(targets[1] ?? targets[0] ?? { apiVersion: '', kind: '' }, 'none').then(
        () => true,
        () => false,
      ),
    undefined,
    {
      deadlineMs: 120_000,
    },
  )

  const figures = new Map<string, { readonly stepMs: number[]; readonly perSecond: number[] }>()
  const measure = async (target: Target, name: Name, counts: boolean): Promise<void> => {
    for (let count = 0; count < 5; count++) await create(target, name)
    const before = histogram(await metrics(), step, ofCreate)
    for (let count = 0; count < requests; count++) await create(target, name)
    const after = histogram(await metrics(), step, ofCreate)
    const startedMs = performance.now()
    const lane = async () => {
      for (let count = 0; count < requests / connections; count++) await create(target, name)
    }
    await Promise.all(Array.from({ length: connections }, lane))
    const seconds = (performance.now() - startedMs) / 1000
    if (!counts) return
    const key = `${target.kind}/${name}`
    const known = figures.get(key) ?? { stepMs: [], perSecond: [] }
    known.stepMs.push((after.sumMs - before.sumMs) / (after.count - before.count))
    known.perSecond.push(requests / seconds)
    figures.set(key, known)
  }

  for (const name of ['echo', 'naive', '100', '1000']) servers.push(await start(name, api.kubeconfig))
  const configuration = {
    apiVersion: 'admissionregistration.k8s.io/v1',
    kind: 'MutatingWebhookConfiguration',
    metadata: { name: 'bench' },
    webhooks: servers.flatMap(({ webhooks }) => webhooks),
  }
  // The first round warms up.
  for (let round = 0; round <= rounds; round++) {
    for (const target of targets) await measure(target, 'none', round > 0)
    await apply([configuration])
    await become('presets 1000', true)
    for (const target of targets) await measure(target, 'unselected', round > 0)
    await apply([configuration], 'delete')
    await become('presets 1000', false)
  }
  await apply([configuration, ...targets.flatMap((target) => policiesFor(target, 100))])
  const compared: readonly Name[] = ['echo', 'naive', 'presets 100', 'presets 1000', 'policies 100']
  for (const name of compared.slice(1)) await become(name, true)
  for (let round = 0; round <= rounds; round++) {
    for (const name of compared) for (const target of targets) await measure(target, name, round > 0)
  }
  await pool.close()

  const median = (list: readonly number[]) => list.toSorted((a, b) => a - b)[Math.floor(list.length / 2)] ?? 0
  const rounded = (value: number) => Math.round(value * 100) / 100
  const rows = [...figures].map(([key, { stepMs, perSecond }]) => {
    const [kind = '', handler = ''] = key.split('/')
    const than = (other: string) => rounded(median(stepMs) / median(figures.get(`${kind}/${other}`)?.stepMs ?? []))
    return {
      kind,
      handler,
      stepMs: rounded(median(stepMs)),
      createsPerSecond: Math.round(median(perSecond)),
      timesNone: than('none'),
      timesNaive: than('naive'),
    }
  })
  if (values.json) console.log(JSON.stringify({ rounds, requests, rows }))
  else console.table(rows)
} finally {
  for (const { process: child } of servers) child.stdin?.end()
  await api.stop()
}
