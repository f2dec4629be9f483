import { readFileSync, statSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { parseArgs } from 'node:util'
import { writeDomain } from '../api/domain/xml.ts'
import type { VirtualMachine } from '../api/virtual-machine.ts'
import { isRecord } from '../api/schema.ts'
import { readSettings } from '../cluster/settings.ts'
import { launcherPod, podName } from '../controller/launcher-pod.ts'
import { pods, type Pod } from '../controller/pod.ts'
import { renderDomain } from '../launcher/render.ts'
import { kubeconfigAccess } from '../runtime/access.ts'
import { createKubeClient } from '../runtime/kube.ts'
import { virtualMachines, type KubeObject, type Persisted, type Resource } from '../runtime/resource.ts'
import { processesOfPod } from '../test/cluster/cluster.ts'
import { followPod, waits, waitsOf } from './vm-timeline.ts'

/**
 * On the cluster of `make up`: the time from a VM's creation until it is Running, compared with a bare pod of the same
 * image plus libvirtd alone (its start, define and start of the same domain); what each part of that time waits for;
 * how often virtset writes to the API server during a VM's life, except events; and the memory of a launcher pod
 * without QEMU.
 *
 *     node bench/vm-start.ts [--count 10] [--json]
 */
const { values } = parseArgs({
  options: { count: { type: 'string', default: '10' }, json: { type: 'boolean', default: false } },
})
const count = Number(values.count)
const settings = readSettings(resolve(import.meta.dirname, '..'), process.env)
const access = await kubeconfigAccess({ file: join(settings.state, 'kubeconfig') })
const kube = createKubeClient({ access, userAgent: 'virtset-bench' })
const namespace = 'default'
const auditLog = join(settings.state, 'log/audit.log')

/** Goals: the time of a VM divided by that of its parts, writes per VM, memory. */
const goals = { ratio: 1.5, writes: 6, launcherMiB: 90 }

/**
 * Creates an object and waits for a state. Returns the time from the request until the watch reported that state, and
 * the object.
 */
async function timeUntil<T extends KubeObject>(
  of: Resource<T>,
  object: T,
  isReached: (object: Persisted<T>) => boolean,
): Promise<{ ms: number; object: Persisted<T>; sentMs: number; answeredMs: number; runningMs: number }> {
  const { resourceVersion } = await kube.list(of, { namespace })
  const stop = new AbortController()
  const events = kube.watch(of, { namespace, resourceVersion, timeoutSeconds: 120, signal: stop.signal })
  const begin = performance.now()
  const sentMs = Date.now()
  const [answeredMs, reached] = await Promise.all([
    kube.create(of, object).then(() => Date.now()),
    (async () => {
      for await (const event of events) {
        if (!of.accepts(event.object) || event.object.metadata.name !== object.metadata.name) continue
        if (isReached(event.object))
          return { ms: performance.now() - begin, object: event.object, runningMs: Date.now() }
      }
      throw new Error(`${of.kind} ${object.metadata.name} did not reach the expected state`)
    })(),
  ])
  stop.abort()
  return { ...reached, sentMs, answeredMs }
}

async function remove<T extends KubeObject>(of: Resource<T>, name: string): Promise<void> {
  await kube.delete(of, { namespace, name }, { gracePeriodSeconds: 0 })
  while ((await kube.list(of, { namespace })).items.some(({ metadata }) => metadata.name === name)) await sleep(50)
}

const vmWith = (name: string): VirtualMachine => ({
  apiVersion: 'virtset.io/v1alpha1',
  kind: 'VirtualMachine',
  metadata: { name, namespace },
  spec: {
    domain: { type: 'qemu', memory: { unit: 'MiB', value: 64 }, os: { type: { os: 'hvm' } } },
    terminationGracePeriodSeconds: 0,
  },
})

/** The VM's pod, but with libvirtd alone, which defines and starts the VM's domain. */
function barePod(of: Persisted<VirtualMachine>, image: string, name: string): Pod {
  const { spec } = launcherPod(of, { image, claims: new Map() })
  const [container] = spec.containers
  if (container === undefined) throw new Error('a launcher pod has a container')
  // The script is not in the image. In the pod, the folders that it imports are beside it.
  const script = readFileSync(join(import.meta.dirname, 'libvirt-alone.ts'), 'utf8').replaceAll("'../", "'./")
  const xml = writeDomain(renderDomain(of.spec.domain, { uid: of.metadata.uid, name }, new Map()))
  const alone = {
    ...container,
    env: [{ name: 'DOMAIN_XML', value: xml }],
    command: ['/usr/bin/tini', '--', '/usr/local/bin/node', '--input-type=module-typescript', '-e', script],
  }
  return {
    apiVersion: 'v1',
    kind: 'Pod',
    metadata: { name, namespace },
    spec: { ...spec, terminationGracePeriodSeconds: 0, containers: [alone] },
  }
}

interface Libvirt {
  readonly daemonMs: number
  readonly defineMs: number
  readonly startMs: number
}

async function libvirtAlone(name: string): Promise<Libvirt> {
  const path = `/api/v1/namespaces/${namespace}/pods/${name}/log`
  for (let tries = 0; tries < 600; tries++) {
    const printed = await kube.request('GET', path).catch(() => undefined)
    if (isRecord(printed)) {
      const { daemonMs, defineMs, startMs } = printed
      if (typeof daemonMs === 'number' && typeof defineMs === 'number' && typeof startMs === 'number')
        return { daemonMs, defineMs, startMs }
    }
    await sleep(50)
  }
  throw new Error(`pod ${name} has not printed its times: ${JSON.stringify(await kube.request('GET', path))}`)
}

/** The log of a VM's launcher. */
function logOf({ metadata: { name, uid }, spec }: Persisted<Pod>): string {
  const pods = join(settings.state, 'nodes', spec.nodeName ?? '', 'log/pods')
  return readFileSync(join(pods, `${namespace}_${name}_${uid}`, 'compute/0.log'), 'utf8')
}

/** The proportional set size (PSS) of all processes of a pod except QEMU, in MiB. */
function memoryWithoutQemu(podUid: string): number {
  const kilobytes = processesOfPod(podUid, (command) => !command.startsWith('/usr/bin/qemu-system-')).map((pid) =>
    Number(/^Pss: +(\d+) kB$/m.exec(readFileSync(`/proc/${pid}/smaps_rollup`, 'utf8'))?.[1]),
  )
  return kilobytes.reduce((sum, each) => sum + each, 0) / 1024
}

/** The writes of virtset's accounts to a VM or its pod since the audit log had this size. */
function writesSince(bytes: number, name: string, pod: string): string[] {
  return readFileSync(auditLog)
    .subarray(bytes)
    .toString()
    .split('\n')
    .flatMap((line) => {
      if (line === '') return []
      const { verb, user, objectRef, responseStatus } = JSON.parse(line)
      const isOurs = String(user?.username).startsWith('system:serviceaccount:virtset-system:')
      const isOf = objectRef?.namespace === namespace && [name, pod].includes(objectRef?.name)
      if (!isOurs || !isOf || objectRef.resource === 'events' || responseStatus?.code >= 400) return []
      const what = [objectRef.resource, objectRef.subresource].filter((part) => part !== undefined).join('/')
      return [`${String(user.username).split(':').at(-1)} ${verb} ${what}`]
    })
}

const median = (list: readonly number[]): number => {
  const sorted = list.toSorted((left, right) => left - right)
  const middle = Math.floor(sorted.length / 2)
  const upper = sorted[middle] ?? 0
  return sorted.length % 2 === 1 ? upper : ((sorted[middle - 1] ?? 0) + upper) / 2
}

async function measure(index: number) {
  const name = `bench-vm-${index}`
  const auditBytes = statSync(auditLog).size
  const following = await followPod(kube, namespace, name)
  const vm = await timeUntil(virtualMachines, vmWith(name), ({ status }) => status?.phase === 'Running')
  const podTimes = await following.stop()
  const pod = await kube.get(pods, { namespace, name: podName(vm.object) })
  const log = logOf(pod)
  const waited = waitsOf({ ...vm, ...podTimes }, pod.metadata.uid, log)
  const bare = `bench-pod-${index}`
  const podRuns = await timeUntil(
    pods,
    barePod(vm.object, pod.spec.containers[0]?.image ?? '', bare),
    ({ status }) => status?.phase === 'Running',
  )
  const libvirt = await libvirtAlone(bare)
  const ownDefineMs = Number(/"defineMs":(\d+)/.exec(log)?.[1])
  const memoryMiB = memoryWithoutQemu(pod.metadata.uid)
  await remove(pods, bare)
  await remove(virtualMachines, name)
  const writes = writesSince(auditBytes, name, pod.metadata.name)
  const partsMs = podRuns.ms + libvirt.daemonMs + libvirt.defineMs + libvirt.startMs
  return { vmMs: vm.ms, waited, ownDefineMs, podMs: podRuns.ms, ...libvirt, partsMs, memoryMiB, writes }
}

// The first round warms up.
await measure(0)
const rounds: Awaited<ReturnType<typeof measure>>[] = []
for (let index = 1; index <= count; index++) rounds.push(await measure(index))
await kube.close()

const column = (of: (round: (typeof rounds)[number]) => number) => {
  const list = rounds.map(of)
  return { median: median(list), least: Math.min(...list), most: Math.max(...list) }
}
const result = {
  vmMs: column(({ vmMs }) => vmMs),
  ownDefineMs: column(({ ownDefineMs }) => ownDefineMs),
  podMs: column(({ podMs }) => podMs),
  daemonMs: column(({ daemonMs }) => daemonMs),
  defineMs: column(({ defineMs }) => defineMs),
  startMs: column(({ startMs }) => startMs),
  partsMs: column(({ partsMs }) => partsMs),
  launcherMiB: column(({ memoryMiB }) => memoryMiB),
  writes: column(({ writes }) => writes.length),
}
const timeline = waits.map((wait) => ({ wait, ...column(({ waited }) => waited[wait]) }))
const ratio = result.vmMs.median / result.partsMs.median

if (values.json) console.log(JSON.stringify({ ...result, timeline, ratio, writesOfLast: rounds.at(-1)?.writes }))
else {
  const line = (what: string, { median: middle, least, most }: { median: number; least: number; most: number }) =>
    console.log(
      `${what.padEnd(70)} ${middle.toFixed(0).padStart(7)} ${least.toFixed(0).padStart(7)} ${most.toFixed(0).padStart(7)}`,
    )
  console.log(`${`${count} of each, interleaved`.padEnd(70)}  median   least    most`)
  line('VM: created until Running, ms', result.vmMs)
  for (const { wait, ...times } of timeline) line(`  ${wait}, ms`, times)
  line('bare pod of the same image: created until Running, ms', result.podMs)
  line('  libvirtd alone: started until it responds, ms', result.daemonMs)
  line('  the domain defined, ms', result.defineMs)
  line('  the domain started, ms', result.startMs)
  line('sum of these, ms', result.partsMs)
  console.log(`VM divided by its parts: ${ratio.toFixed(2)} (goal: at most ${goals.ratio})`)
  line(`launcher pod without QEMU, MiB (goal: ${goals.launcherMiB})`, result.launcherMiB)
  line(`writes of virtset for a VM's life (goal: ${goals.writes})`, result.writes)
  for (const write of rounds.at(-1)?.writes ?? []) console.log(`  ${write}`)
}
