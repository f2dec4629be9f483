import { setTimeout as sleep } from 'node:timers/promises'
import { parseArgs } from 'node:util'
import { attempt, run } from '../cluster/command.ts'
import { madeCluster } from './made-cluster.ts'

/**
 * On the cluster of `make up`: a group of Linux guests behind one Service, whose VMs are replaced one after the other
 * while a client sends requests. Measures the time until all VMs are ready and until all are replaced, and how many
 * requests fail in the meantime. An emulated guest takes a tenth of a core, and a core while it boots.
 *
 *     npm run -s bench:service [-- --vms 20] [--plugin routed] [--json]
 */
const { values } = parseArgs({
  options: {
    vms: { type: 'string', default: '20' },
    plugin: { type: 'string' },
    json: { type: 'boolean', default: false },
  },
})
const replicas = Number(values.vms)
const namespace = 'bench-service'
const { base, kubectl, field } = madeCluster(namespace)
const progress = (text: string) => process.stderr.write(`${text}\n`)
const labels = { app: 'server' }
/** An emulated guest boots in 20 s of CPU time. */
const deadlineMs = replicas * 60_000 + 120_000

function group(root: object): object {
  const userData = `#cloud-config\nwrite_files:\n- path: /www/who\n  content: guest\nruncmd:\n- httpd -p 80 -h /www\n`
  return {
    apiVersion: 'virtset.io/v1alpha1',
    kind: 'VirtualMachineGroup',
    metadata: { name: 'servers' },
    spec: {
      replicas,
      selector: { matchLabels: labels },
      template: {
        metadata: { labels },
        spec: {
          terminationGracePeriodSeconds: 20,
          volumes: [root, { name: 'seed', cloudInit: { userData } }],
          ports: [{ name: 'http', port: 80 }],
          ...(values.plugin === undefined ? {} : { taps: [{ dev: 'tap0', plugin: values.plugin }] }),
          readinessProbe: { httpGet: { port: 'http', path: '/who' }, periodSeconds: 2, timeoutSeconds: 10 },
          domain: {
            type: 'qemu',
            memory: { unit: 'MiB', value: 160 },
            features: { acpi: {} },
            os: { type: { os: 'hvm' } },
            devices: {
              interfaces: [{}],
              serials: [{ type: 'pty' }],
              disks: [
                { type: 'volume', source: { volume: 'root' }, target: { dev: 'vda', bus: 'virtio' } },
                { type: 'volume', device: 'cdrom', source: { volume: 'seed' }, target: { dev: 'sda', bus: 'sata' } },
              ],
            },
          },
        },
      },
    },
  }
}

/** Sends a request every 100 ms, each with a connection of its own, and serves what became of them. */
const clientProgram = `
  const { createServer, get } = require('node:http')
  const found = { succeeded: 0, failed: {} }
  const fail = (why) => (found.failed[why] = (found.failed[why] ?? 0) + 1)
  setInterval(() => {
    const asked = get({ host: 'servers', port: 8080, path: '/who', agent: false, timeout: 10000 }, (response) => {
      response.resume().on('end', () => (response.statusCode === 200 ? found.succeeded++ : fail(response.statusCode)))
    })
    asked.on('timeout', () => asked.destroy(new Error('timeout'))).on('error', (error) => fail(error.code ?? error.message))
  }, 100)
  createServer((_, response) => response.end(JSON.stringify(found))).listen(8000)`

const isReady =
  '{range .items[?(@.status.phase=="Running")]}{.metadata.name} {.status.conditions[?(@.type=="Ready")].status}{"\\n"}{end}'
const readyVms = async () =>
  (await field(isReady, 'vms'))
    .split('\n')
    .flatMap((line) => (line.endsWith(' True') ? [line.split(' ')[0] ?? ''] : []))

const requested =
  '{range .items[?(@.status.phase=="Running")]}{.metadata.name} {.spec.containers[0].resources.requests.cpu}{"\\n"}{end}'
const released = '1m'
/** Lets go of the CPU time that the pods of running VMs request, which a small node has not for all. */
async function releaseCpu(): Promise<void> {
  const pods = (await field(requested, 'pods', '-l', `app=${labels.app}`)).split('\n').map((line) => line.split(' '))
  const patch = [{ op: 'replace', path: '/spec/containers/0/resources/requests/cpu', value: released }]
  for (const [name = '', cpu = released] of pods)
    if (cpu !== released)
      await kubectl('patch', 'pod', name, '--subresource=resize', '--type=json', '-p', JSON.stringify(patch))
}

/** What the other VMs printed last. */
async function consolesExcept(ready: readonly string[]): Promise<string> {
  const names = (await field('{.items[*].metadata.name}', 'vms')).split(' ').filter((name) => !ready.includes(name))
  const logs = `/apis/sessions.virtset.io/v1alpha1/namespaces/${namespace}/virtualmachines`
  const texts = names.map(async (name) => {
    const console = await attempt([...base, 'get', '--raw', `${logs}/${name}/log?tailBytes=4096`])
    return `--- ${name}\n${console ?? 'has no console'}`
  })
  return (await Promise.all(texts)).join('\n')
}

async function untilReady(without: readonly string[]): Promise<void> {
  const endMs = Date.now() + deadlineMs
  for (;;) {
    await releaseCpu()
    const ready = await readyVms()
    if (ready.length === replicas && !ready.some((name) => without.includes(name))) return
    if (Date.now() > endMs) {
      throw new Error(`only ${ready.length} of ${replicas} VMs are ready\n${await consolesExcept(ready)}`)
    }
    await sleep(1000)
  }
}

const secondsSince = (startedMs: number) => Number(((performance.now() - startedMs) / 1000).toFixed(1))

try {
  await kubectl('create', 'namespace', namespace)
  const handler = ['-n', 'virtset-system', 'daemonset', 'virtset-handler']
  const image = await field('{.spec.template.spec.containers[0].image}', ...handler)
  const [root] = JSON.parse(await field('{.spec.volumes}', '-n', 'default', 'vm', 'from-image'))
  const service = { selector: labels, ports: [{ port: 8080, targetPort: 'http' }] }
  const client = {
    terminationGracePeriodSeconds: 0,
    automountServiceAccountToken: false,
    containers: [{ name: 'client', image, args: ['-e', clientProgram] }],
  }
  const apply = (...items: object[]) =>
    run([...base, 'apply', '-f', '-'], { input: JSON.stringify({ apiVersion: 'v1', kind: 'List', items }) })
  const startedMs = performance.now()
  await apply({ apiVersion: 'v1', kind: 'Service', metadata: { name: 'servers' }, spec: service }, group(root))
  await untilReady([])
  const readySeconds = secondsSince(startedMs)
  progress(`${replicas} VMs are ready after ${readySeconds} s`)
  await apply({ apiVersion: 'v1', kind: 'Pod', metadata: { name: 'client' }, spec: client })
  await kubectl('wait', 'pod/client', '--for=condition=Ready', '--timeout=120s')
  const rolledMs = performance.now()
  const old = await readyVms()
  for (const [index, name] of old.entries()) {
    await kubectl('delete', 'vm', name)
    await untilReady(old.slice(0, index + 1))
    progress(`${index + 1} of ${replicas} VMs are replaced`)
  }
  const rollSeconds = secondsSince(rolledMs)
  const address = await field('{.status.podIP}', 'pod', 'client')
  const requests = JSON.parse(await (await fetch(`http://${address}:8000`)).text())
  const result = { vms: replicas, readySeconds, rollSeconds, requests }
  console.log(values.json ? JSON.stringify(result) : result)
} finally {
  await attempt([...base, 'delete', 'namespace', namespace, '--wait=false', '--ignore-not-found'])
}
