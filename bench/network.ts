import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { parseArgs } from 'node:util'
import { attempt, run } from '../cluster/command.ts'
import { processesOfPod } from '../test/cluster/cluster.ts'
import { madeCluster } from './made-cluster.ts'

/**
 * On a cluster of `make up NODES=2`: the bindings of a guest's network beside a pod, in one run. A client in a pod of
 * the other node exchanges data with one Linux guest of each binding, and with a pod on the node of the guests. It
 * measures the throughput in both directions (one TCP stream of iperf3, which the guest opens), the time of one byte and
 * its echo, and HTTP requests with a connection each; the benchmark measures the CPU time of all processes of the VM's
 * pod per GiB, and their memory. The ways alternate, and the figures are medians of the rounds.
 *
 * With `--connections`, this many requests per round instead of those of some seconds: none may fail.
 *
 *     npm run -s bench:network [-- --rounds 3] [--seconds 5] [--connections 10000] [--bindings passt,nat,routed,slirp]
 *       [--json]
 */
const { values } = parseArgs({
  options: {
    rounds: { type: 'string', default: '3' },
    seconds: { type: 'string', default: '5' },
    connections: { type: 'string', default: '0' },
    bindings: { type: 'string', default: 'passt,nat,routed,slirp' },
    json: { type: 'boolean', default: false },
  },
})
const rounds = Number(values.rounds)
const seconds = Number(values.seconds)
const connections = Number(values.connections)
const bindings = values.bindings.split(',')
const namespace = 'bench-network'
const { base, kubectl, field } = madeCluster(namespace)
const progress = (text: string) => process.stderr.write(`${text}\n`)

const controlPort = 8000
/** Only a guest that does not boot takes this long: an emulated one on a busy machine takes a minute. */
const deadlineMs = 300_000

async function until(what: string, isTrue: () => Promise<boolean>): Promise<void> {
  const endMs = Date.now() + deadlineMs
  while (!(await isTrue())) {
    if (Date.now() > endMs) throw new Error(`not within ${deadlineMs / 1000} s: ${what}`)
    await sleep(500)
  }
}

const tolerations = [{ key: 'node.kubernetes.io/unschedulable', operator: 'Exists', effect: 'NoSchedule' }]
const on = (node: string) => ({ nodeSelector: { 'kubernetes.io/hostname': node }, tolerations })

function peer(name: string, node: string, image: string, client: readonly string[]): object {
  return {
    apiVersion: 'v1',
    kind: 'Pod',
    metadata: { name },
    spec: {
      ...on(node),
      terminationGracePeriodSeconds: 0,
      automountServiceAccountToken: false,
      containers: [
        {
          name: 'peer',
          image,
          args: ['/bench/network-peer.ts', ...client],
          volumeMounts: [{ name: 'programs', mountPath: '/bench' }],
        },
      ],
      volumes: [{ name: 'programs', configMap: { name: 'programs' } }],
    },
  }
}

/** Does the jobs that the client gives, one after the other. */
const script = (name: string, client: string) => `#!/bin/sh
while :; do
  if wget -q -T 3600 -O /tmp/job http://${client}:${controlPort}/job/${name}; then
    read -r kind seconds </tmp/job
    case $kind in
      from) iperf3 -c ${client} -t "$seconds" ;;
      to) iperf3 -c ${client} -t "$seconds" -R ;;
      echo) nc ${client} 7007 -e cat || : ;;
    esac >/tmp/output 2>&1 ||
      wget -q -O /dev/null --post-data "$(tail -c 300 /tmp/output)" http://${client}:${controlPort}/failed/${name}
  else
    sleep 1
  fi
done
`

function guest(name: string, node: string, root: object, client: string): object {
  const lines = script(name, client)
    .split('\n')
    .map((line) => `    ${line}\n`)
    .join('')
  const small = `- path: /www/small\n  content: ${'x'.repeat(64)}\n`
  const files = `${small}- path: /usr/local/jobs\n  permissions: "0755"\n  content: |\n${lines}`
  const userData = `#cloud-config\nwrite_files:\n${files}runcmd:\n- httpd -p 80 -h /www\n- setsid /usr/local/jobs &\n`
  const isSlirp = name === 'slirp'
  return {
    apiVersion: 'virtset.io/v1alpha1',
    kind: 'VirtualMachine',
    metadata: { name },
    spec: {
      ...on(node),
      terminationGracePeriodSeconds: 0,
      volumes: [root, { name: 'seed', cloudInit: { userData } }],
      ...(name === 'nat' || name === 'routed' ? { taps: [{ dev: 'tap0', plugin: name }] } : {}),
      ...(isSlirp ? {} : { ports: [{ name: 'http', port: 80 }] }),
      domain: {
        type: 'qemu',
        memory: { unit: 'MiB', value: 192 },
        os: { type: { os: 'hvm' } },
        devices: {
          interfaces: [isSlirp ? { type: 'user', model: { type: 'virtio' }, backend: { type: 'default' } } : {}],
          disks: [
            { type: 'volume', source: { volume: 'root' }, target: { dev: 'vda', bus: 'virtio' } },
            { type: 'volume', device: 'cdrom', source: { volume: 'seed' }, target: { dev: 'sda', bus: 'sata' } },
          ],
        },
      },
    },
  }
}

/** CPU seconds of all processes of a pod. The clock of /proc has 100 ticks a second. */
function cpuSecondsOf(podUid: string): number {
  const ticks = processesOfPod(podUid, () => true).map((pid) => {
    const after = readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ')[1]?.split(' ') ?? []
    return Number(after[11]) + Number(after[12])
  })
  return ticks.reduce((sum, each) => sum + each, 0) / 100
}

function residentMiB(podUid: string, isCounted: (command: string) => boolean): number {
  const kilobytes = processesOfPod(podUid, isCounted).map((pid) =>
    Number(/^VmRSS:\s+(\d+) kB$/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1] ?? 0),
  )
  return kilobytes.reduce((sum, each) => sum + each, 0) / 1024
}

interface Round {
  readonly fromMBps: number
  readonly toMBps: number
  readonly fromCpuPerGiB: number
  readonly toCpuPerGiB: number
  readonly echoP50Ms: number
  readonly requestsPerSecond: number | undefined
  readonly requestP50Ms: number | undefined
}

interface Way {
  readonly name: string
  readonly podUid: string
  readonly address: string
}

const gibibyte = 2 ** 30

async function measure(client: string, { name, podUid, address }: Way): Promise<Round> {
  const ask = async (kind: string) => {
    const query = `kind=${kind}&seconds=${seconds}&address=${address}&connections=${connections}`
    const response = await fetch(`http://${client}:${controlPort}/measure/${name}?${query}`, {
      signal: AbortSignal.timeout(240_000),
    })
    const text = await response.text()
    if (!response.ok) throw new Error(`${name}, ${kind}: ${text}`)
    return JSON.parse(text)
  }
  const transfer = async (kind: 'from' | 'to') => {
    const before = cpuSecondsOf(podUid)
    const { bytes, seconds: took } = await ask(kind)
    return { MBps: bytes / took / 1e6, cpuPerGiB: ((cpuSecondsOf(podUid) - before) * gibibyte) / bytes }
  }
  const from = await transfer('from')
  const to = await transfer('to')
  const echo = await ask('echo')
  // Nothing reaches a guest behind QEMU's own stack.
  const requests = name === 'slirp' ? undefined : await ask('requests')
  return {
    fromMBps: from.MBps,
    toMBps: to.MBps,
    fromCpuPerGiB: from.cpuPerGiB,
    toCpuPerGiB: to.cpuPerGiB,
    echoP50Ms: echo.p50Ms,
    requestsPerSecond: requests?.perSecond,
    requestP50Ms: requests?.p50Ms,
  }
}

const median = (list: readonly number[]): number =>
  list.toSorted((left, right) => left - right)[Math.floor(list.length / 2)] ?? Number.NaN

async function setUp(): Promise<{ readonly client: string; readonly ways: readonly Way[] }> {
  const nodes = (await field('{.items[*].metadata.name}', 'nodes')).split(' ')
  const [node, other] = nodes
  if (node === undefined || other === undefined) throw new Error('two nodes are required: make up NODES=2')
  await kubectl('create', 'namespace', namespace)
  const handler = ['-n', 'virtset-system', 'daemonset', 'virtset-handler']
  const image = await field('{.spec.template.spec.containers[0].image}', ...handler)
  const [root] = JSON.parse(await field('{.spec.volumes}', '-n', 'default', 'vm', 'from-image'))
  const apply = (...items: object[]) =>
    run([...base, 'apply', '-f', '-'], { input: JSON.stringify({ apiVersion: 'v1', kind: 'List', items }) })
  const data = Object.fromEntries(
    ['network-peer.ts', 'iperf.ts'].map((file) => [file, readFileSync(join(import.meta.dirname, file), 'utf8')]),
  )
  await apply({ apiVersion: 'v1', kind: 'ConfigMap', metadata: { name: 'programs' }, data })
  await apply(peer('client', other, image, []))
  await kubectl('wait', 'pod/client', '--for=condition=Ready', '--timeout=120s')
  const client = await field('{.status.podIP}', 'pod', 'client')
  await apply(peer('pod', node, image, [client]), ...bindings.map((name) => guest(name, node, root, client)))
  progress(`waiting for the guests ${bindings.join(', ')}`)
  const waiting = async () => {
    const names: string[] = JSON.parse(await (await fetch(`http://${client}:${controlPort}/waiting`)).text())
    return names
  }
  await until('the guests ask for jobs', async () => {
    const asking = await waiting().catch((): string[] => [])
    return ['pod', ...bindings].every((name) => asking.includes(name))
  })
  const [podUid = '', podIp = ''] = (await field('{.metadata.uid} {.status.podIP}', 'pod', 'pod')).split(' ')
  const guests = bindings.map(async (name): Promise<Way> => {
    const [uid = '', address = ''] = (await field('{.status.podUID} {.status.podIP}', 'vm', name)).split(' ')
    return { name, podUid: uid, address }
  })
  return { client, ways: [{ name: 'pod', podUid, address: podIp }, ...(await Promise.all(guests))] }
}

try {
  const { client, ways } = await setUp()
  const results = new Map<string, Round[]>(ways.map(({ name }) => [name, []]))
  // The first round warms up.
  for (let round = 0; round <= rounds; round++) {
    for (const way of ways) {
      const result = await measure(client, way)
      if (round > 0) results.get(way.name)?.push(result)
      progress(`round ${round} of ${rounds}, ${way.name}: ${JSON.stringify(result, rounded)}`)
    }
  }
  const isOfPasst = (command: string) => /(^|\/)passt(\.avx2)? /.test(command)
  const isOfQemu = (command: string) => command.startsWith('/usr/bin/qemu-system-')
  const medians = ways.map(({ name, podUid }) => {
    const all = results.get(name) ?? []
    const of = (pick: (round: Round) => number | undefined) => {
      const found = all.map(pick).filter((value) => value !== undefined)
      return found.length === 0 ? undefined : median(found)
    }
    return {
      name,
      fromMBps: of(({ fromMBps }) => fromMBps),
      toMBps: of(({ toMBps }) => toMBps),
      fromCpuPerGiB: of(({ fromCpuPerGiB }) => fromCpuPerGiB),
      toCpuPerGiB: of(({ toCpuPerGiB }) => toCpuPerGiB),
      echoP50Ms: of(({ echoP50Ms }) => echoP50Ms),
      requestsPerSecond: of(({ requestsPerSecond }) => requestsPerSecond),
      requestP50Ms: of(({ requestP50Ms }) => requestP50Ms),
      qemuMiB: residentMiB(podUid, isOfQemu),
      passtMiB: residentMiB(podUid, isOfPasst),
    }
  })
  const [pod] = medians
  const relative = medians.map(({ name, fromMBps, toMBps, requestsPerSecond }) => ({
    name,
    from: (fromMBps ?? Number.NaN) / (pod?.fromMBps ?? Number.NaN),
    to: (toMBps ?? Number.NaN) / (pod?.toMBps ?? Number.NaN),
    requests: (requestsPerSecond ?? Number.NaN) / (pod?.requestsPerSecond ?? Number.NaN),
  }))
  if (values.json) console.log(JSON.stringify({ rounds, seconds, medians, relative }, rounded))
  else {
    console.log(`medians of ${rounds} rounds of ${seconds} s; "from" the guest to the client, "to" the guest`)
    console.table(JSON.parse(JSON.stringify(medians, rounded)))
    console.log('pod to pod = 1')
    console.table(JSON.parse(JSON.stringify(relative, rounded)))
  }
} finally {
  await attempt([...base, 'delete', 'namespace', namespace, '--wait=false', '--ignore-not-found'])
}

function rounded(_key: string, value: unknown): unknown {
  return typeof value === 'number' ? Number(value.toPrecision(3)) : value
}
