import { fork } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { WebSocket } from 'ws'
import { run } from '../cluster/command.ts'
import { bundledCapabilities } from '../completion/capabilities.ts'
import { accountOf, kubectlAs } from '../test/apiserver/accounts.ts'
import { startApiServer } from '../test/apiserver/apiserver.ts'
import { installProcesses, type Replica } from '../test/apiserver/processes.ts'
import { ownAddress } from '../test/apiserver/service.ts'
import type { Listening } from './sessions/nodes.ts'
import { pourRequest, windowBytes } from './sessions/window.ts'

/**
 * Sessions through a real API server, the webhooks' process and a handler's session server, beside a WebSocket to an
 * extension server that echoes by itself. The far side of both is one other process. Measures the time to open, the
 * latency of one byte and its echo, the bytes per second from the guest, and what idle sessions cost the webhooks. The
 * ways alternate, and the figures are medians of the rounds, because other work on the host would favor one of them.
 * Requires KUBE_BIN_DIR (`make binaries`).
 *
 *     npm run -s bench:sessions [-- --rounds 7] [--echoes 40] [--mebibytes 8] [--json]
 */
const { values } = parseArgs({
  options: {
    rounds: { type: 'string', default: '7' },
    echoes: { type: 'string', default: '40' },
    mebibytes: { type: 'string', default: '8' },
    json: { type: 'boolean' },
  },
})
const rounds = Number(values.rounds)
/** In each round. */
const echoes = Number(values.echoes)
const mebibytes = Number(values.mebibytes)
const openings = 3
/** The idle sessions, of a user for each namespace: within the limits of a VM, a namespace, a node and a replica. */
const [namespaces, vmsOfNamespace, idleOfVm] = [8, 4, 16]
const nodes = ['n0', 'n1', 'n2']
const replicas = ['one', 'two', 'three']
const idleSeconds = 60
interface Vm {
  readonly namespace: string
  readonly name: string
  readonly podUID: string
}
const nodeOf = ({ podUID }: Vm) => nodes[Number(podUID.slice(-12)) % nodes.length] ?? ''
const vmAt = (namespace: string, index: number): Vm => ({
  namespace,
  name: `vm${index}`,
  podUID: `0b9dd0ab-6a4a-4bbb-9f6f-${String(index).padStart(12, '0')}`,
})
const vm = vmAt('default', 0)
const idle = Array.from({ length: namespaces * vmsOfNamespace }, (_, index) =>
  vmAt(`idle${index % namespaces}`, index + 1),
)
const vms = [vm, ...idle]
const api = await startApiServer()
const kubectl = (rest: string[], input?: object) =>
  run(
    [api.kubectl, '--kubeconfig', api.kubeconfig, ...rest],
    input === undefined ? {} : { input: JSON.stringify(input) },
  )
const token = join(api.directory, 'handler-token')
const processes = await installProcesses(api, { environment: { HANDLER_TOKEN: token } })
writeFileSync(
  token,
  await kubectl(['create', 'token', '-n', 'virtset-system', 'virtset-webhooks', '--audience', 'virtset-handler']),
)
const far = fork(join(import.meta.dirname, 'sessions/nodes.ts'), [
  api.kubeconfig,
  String(nodes.length),
  JSON.stringify(vms),
])
const [{ endpoints, directPort }] = (await once(far, 'message')) as [Listening]
const webhooks: Replica[] = []
for (const name of replicas) webhooks.push(await processes.startWebhooks(name))
await kubectl(['apply', '--server-side', '-f', '-'], {
  apiVersion: 'v1',
  kind: 'List',
  items: endpoints.map((sessionEndpoint, index) => ({
    apiVersion: 'virtset.io/v1alpha1',
    kind: 'NodeProfile',
    metadata: { name: nodes[index] },
    spec: {
      libvirtVersion: '11.3.0',
      kvm: false,
      taints: [],
      sessionEndpoint,
      capabilities: bundledCapabilities,
    },
  })),
})
const devices = { serials: [{ type: 'pty' }], graphics: [{ type: 'vnc' }] }
const domain = { type: 'qemu', memory: { unit: 'MB', value: 64 }, os: { type: { os: 'hvm' } }, devices }
await kubectl(['apply', '-f', '-'], {
  apiVersion: 'v1',
  kind: 'List',
  items: Array.from({ length: namespaces }, (_, index) => ({
    apiVersion: 'v1',
    kind: 'Namespace',
    metadata: { name: `idle${index}` },
  })),
})
await kubectl(['create', '-f', '-'], {
  apiVersion: 'v1',
  kind: 'List',
  items: vms.map(({ name, namespace }) => ({
    apiVersion: 'virtset.io/v1alpha1',
    kind: 'VirtualMachine',
    metadata: { name, namespace },
    spec: { domain },
  })),
})
for (const one of vms) {
  const { name, namespace, podUID } = one
  const status = JSON.stringify({ status: { phase: 'Running', nodeName: nodeOf(one), podUID } })
  const patch = ['patch', 'vm', name, '-n', namespace, '--subresource=status', '--type=merge', '-p', status]
  await kubectl([...patch, ...kubectlAs(accountOf('controller'))])
}

const metadata = { name: 'echo', namespace: 'default' }
await kubectl(['apply', '-f', '-'], {
  apiVersion: 'v1',
  kind: 'List',
  items: [
    { apiVersion: 'v1', kind: 'Service', metadata, spec: { ports: [{ port: 443, targetPort: directPort }] } },
    {
      apiVersion: 'discovery.k8s.io/v1',
      kind: 'EndpointSlice',
      metadata: { ...metadata, labels: { 'kubernetes.io/service-name': 'echo' } },
      addressType: 'IPv4',
      endpoints: [{ addresses: [ownAddress()], conditions: { ready: true } }],
      ports: [{ port: directPort, protocol: 'TCP' }],
    },
    {
      apiVersion: 'apiregistration.k8s.io/v1',
      kind: 'APIService',
      metadata: { name: 'v1.echo.test' },
      spec: {
        group: 'echo.test',
        version: 'v1',
        groupPriorityMinimum: 100,
        versionPriority: 100,
        insecureSkipTLSVerify: true,
        service: { name: 'echo', namespace: 'default' },
      },
    },
  ],
})
await kubectl(['wait', 'apiservice/v1.echo.test', '--for=condition=Available', '--timeout=120s'])

/** @param user whom to impersonate; the admin of the cluster if absent */
const open = (path: string, user?: string): Promise<WebSocket> =>
  new Promise((resolve, reject) => {
    const headers = user === undefined ? {} : { 'impersonate-user': user, 'impersonate-group': 'system:masters' }
    const tls = { ca: api.certificateAuthority, cert: api.clientCertificate, key: api.clientKey }
    const client = new WebSocket(api.server.replace('https', 'wss') + path, {
      ...tls,
      headers,
      perMessageDeflate: false,
    })
    client.once('open', () => resolve(client)).once('error', reject)
  })

const median = (numbers: readonly number[]) => numbers.toSorted((a, b) => a - b)[Math.floor(numbers.length / 2)] ?? 0

async function measure(path: string) {
  const opened: number[] = []
  for (let count = 0; count < openings; count++) {
    const startedMs = performance.now()
    const client = await open(path)
    opened.push(performance.now() - startedMs)
    client.terminate()
  }
  const client = await open(path)
  let heard = 0
  let notify = () => {}
  client.on('message', (bytes: Buffer) => {
    heard += bytes.length
    notify()
  })
  const until = async (bytes: number) => {
    while (heard < bytes) await new Promise<void>((resolve) => (notify = resolve))
  }
  const latencies: number[] = []
  for (let count = 0; count < echoes; count++) {
    // As a person types: what the chain holds back after a chunk must not hide its latency.
    await new Promise((resolve) => setTimeout(resolve, 10))
    heard = 0
    const startedMs = performance.now()
    client.send('e')
    await until(1)
    latencies.push(performance.now() - startedMs)
  }
  const startedMs = performance.now()
  for (let bytes = 0; bytes < mebibytes * 1024 * 1024; bytes += windowBytes) {
    heard = 0
    client.send(pourRequest)
    await until(windowBytes)
  }
  const seconds = (performance.now() - startedMs) / 1000
  client.close()
  return { openMs: median(opened), echoMs: median(latencies), mebibytesPerSecond: mebibytes / seconds }
}

const session = ({ namespace, name }: Vm) =>
  `/apis/sessions.virtset.io/v1alpha1/namespaces/${namespace}/virtualmachines/${name}`
const paths = {
  direct: '/apis/echo.test/v1/namespaces/default/things/x/attach',
  console: `${session(vm)}/attach/console?tailBytes=0`,
  screen: `${session(vm)}/attach/vnc`,
  port: `${session(vm)}/portforward/80`,
}
type Figures = Awaited<ReturnType<typeof measure>>
const measured = Object.entries(paths).map(([name, path]) => ({ name, path, all: [] as Figures[] }))
for (let round = 0; round < rounds; round++) for (const { path, all } of measured) all.push(await measure(path))
const found = measured.map(({ name, all }): [string, Figures] => {
  const of = (figure: keyof Figures) => median(all.map((one) => one[figure]))
  return [name, { openMs: of('openMs'), echoMs: of('echoMs'), mebibytesPerSecond: of('mebibytesPerSecond') }]
})

const sumOfWebhooks = (read: (directory: string) => number) =>
  webhooks.reduce((sum, { child }) => sum + read(`/proc/${child.pid}`), 0)
const residentKibibytes = () =>
  sumOfWebhooks((directory) => Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`${directory}/status`, 'utf8'))?.[1]))
/** The CPU time of a second, in milliseconds. proc_pid_stat(5): `utime` and `stime`, in ticks of 10 ms. */
const cpuOfSecond = async () => {
  const total = () =>
    sumOfWebhooks((directory) => {
      const [utime, stime] = (readFileSync(`${directory}/stat`, 'utf8').split(') ')[1] ?? '').split(' ').slice(11, 13)
      return (Number(utime) + Number(stime)) * 10
    })
  const startedMs = total()
  await new Promise((resolve) => setTimeout(resolve, idleSeconds * 1000))
  return (total() - startedMs) / idleSeconds
}
const cpuBefore = await cpuOfSecond()
const before = residentKibibytes()
const held: WebSocket[] = []
for (const one of idle) {
  const path = `${session(one)}/attach/console`
  held.push(...(await Promise.all(Array.from({ length: idleOfVm }, () => open(path, one.namespace)))))
}
const kibibytesPerIdle = (residentKibibytes() - before) / held.length
const cpuMsPerSecond = (await cpuOfSecond()) - cpuBefore
for (const one of held) one.terminate()

if (values.json === true) {
  process.stdout.write(
    `${JSON.stringify({ ...Object.fromEntries(found), idle: held.length, kibibytesPerIdle, cpuMsPerSecond })}\n`,
  )
} else {
  const baseline = found[0]?.[1]
  const ratio = (one: number, other = 0) => `${(one / other).toFixed(2)} ×`
  for (const [name, { openMs, echoMs, mebibytesPerSecond }] of found) {
    const figures = [
      `open ${openMs.toFixed(1)} ms (${ratio(openMs, baseline?.openMs)})`,
      `echo ${echoMs.toFixed(2)} ms (${ratio(echoMs, baseline?.echoMs)})`,
      `${mebibytesPerSecond.toFixed(1)} MiB/s (${ratio(mebibytesPerSecond, baseline?.mebibytesPerSecond)})`,
    ]
    process.stdout.write(`${name.padEnd(8)} ${figures.join('   ')}\n`)
  }
  const cost = `${kibibytesPerIdle.toFixed(0)} KiB each, ${cpuMsPerSecond.toFixed(0)} ms of CPU per second for all`
  process.stdout.write(`${held.length} idle consoles in the webhooks: ${cost}\n`)
}
far.disconnect()
await processes.stop()
await api.stop()
process.exit(0)
