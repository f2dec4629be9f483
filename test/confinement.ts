import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmdirSync, writeFileSync } from 'node:fs'
import { join, relative } from 'node:path'
import { parseAllDocuments } from 'yaml'
import { launcherResources } from '../api/launcher-resources.ts'
import { quantityNano, quantityValue } from '../api/quantity.ts'

/** The limits of a container; absent ones are unlimited. */
export interface Limits {
  readonly memoryBytes?: number
  readonly cpus?: number
}

export interface Usage {
  /** Processes that the kernel killed because the memory limit was reached. */
  readonly oomKills: number
  /** Peak memory as the limit counts it, including the page cache. */
  readonly peakBytes: number
  readonly cpuSeconds: number
}

/** A cgroup for one process and its children. */
export interface Confinement {
  /** The command that runs `command` within the limits, under the same PID. */
  readonly wrap: (command: readonly string[]) => [string, ...string[]]
  readonly usage: () => Usage
  /** Removes the cgroup. Its processes must have ended. */
  readonly remove: () => void
}

/**
 * The limits of a container in a manifest with a Deployment or DaemonSet, e.g. of `webhooks` in
 * `manifests/webhooks/deployment.yaml`.
 *
 * @throws Error if the manifest does not have the container
 */
export function limitsOf(manifest: string, container: string): Limits {
  const { memory, cpu } = containerOf(manifest, container).resources?.limits ?? {}
  const memoryBytes = memory === undefined ? undefined : quantityValue(memory)
  const nanoCpus = cpu === undefined ? undefined : quantityNano(`${cpu}`)
  return {
    ...(memoryBytes === undefined ? {} : { memoryBytes: Number(memoryBytes) }),
    ...(nanoCpus === undefined ? {} : { cpus: Number(nanoCpus) / 1e9 }),
  }
}

/**
 * The limits of a container on a busy node: the CPU is its share by its request among VMs that use all they can get.
 *
 * @throws Error if the container requests no CPU
 */
export function starvedLimitsOf(manifest: string, container: string): Limits {
  const { cpu } = containerOf(manifest, container).resources?.requests ?? {}
  const request = cpu === undefined ? undefined : quantityNano(`${cpu}`)
  if (request === undefined) throw new Error(`${container} of ${manifest} requests no CPU`)
  const ofVms = BigInt(busyNode.vms) * (quantityNano(launcherResources({ domain: {} }).requests['cpu'] ?? '') ?? 0n)
  return { ...limitsOf(manifest, container), cpus: (busyNode.cpus * Number(request)) / Number(request + ofVms) }
}

/** The arguments of a container. */
export const argumentsOf = (manifest: string, container: string): readonly string[] =>
  containerOf(manifest, container).args ?? []

/** A load average of 50 on two CPUs. */
const busyNode = { cpus: 2, vms: 50 }

/** The probes that the kubelet sends to a container, with Kubernetes' defaults. */
export function probesOf(manifest: string, container: string): { readonly [name in ProbeName]: Probe } {
  const { startupProbe, readinessProbe, livenessProbe } = containerOf(manifest, container)
  const complete = (name: ProbeName, probe: Partial<Probe> | undefined): Probe => {
    if (probe?.httpGet === undefined) throw new Error(`${container} of ${manifest} has no HTTP probe ${name}`)
    return { periodSeconds: 10, timeoutSeconds: 1, failureThreshold: 3, ...probe, httpGet: probe.httpGet }
  }
  return {
    startupProbe: complete('startupProbe', startupProbe),
    readinessProbe: complete('readinessProbe', readinessProbe),
    livenessProbe: complete('livenessProbe', livenessProbe),
  }
}

export interface Probe {
  readonly httpGet: { readonly path: string }
  readonly periodSeconds: number
  readonly timeoutSeconds: number
  readonly failureThreshold: number
}

export type ProbeName = 'startupProbe' | 'readinessProbe' | 'livenessProbe'

function containerOf(manifest: string, container: string): Container {
  const found = parseAllDocuments(readFileSync(manifest, 'utf8'))
    .map((document): Workload => document.toJS())
    .flatMap(({ spec }) => spec?.template?.spec.containers ?? [])
    .find(({ name }) => name === container)
  if (found === undefined) throw new Error(`${manifest} has no container ${container}`)
  return found
}

interface Workload {
  readonly spec?: { readonly template?: { readonly spec: { readonly containers: readonly Container[] } } }
}

interface Container extends Partial<Record<ProbeName, Partial<Probe>>> {
  readonly name: string
  readonly args?: readonly string[]
  readonly resources?: { readonly limits?: Amounts; readonly requests?: Amounts }
}

interface Amounts {
  readonly memory?: string
  readonly cpu?: string | number
}

const root = '/sys/fs/cgroup'
const parent = 'virtset-test'
const isV2 = () => existsSync(join(root, 'cgroup.controllers'))

/**
 * Creates a cgroup with these limits below `virtset-test`, in cgroup v2 or in the controllers of v1. Requires root.
 * @param below the path of its parent there
 */
export function confine(limits: Limits, below = '.'): Confinement {
  return isV2() ? confineV2(limits, below) : confineV1(limits, below)
}

/** The directory `virtset-test` of the hierarchy that limits memory. */
export const memoryGroups = (): string => join(root, isV2() ? '' : 'memory', parent)

/** A tenth of a second, as in kubelet; longer below 1 %, because the kernel accepts no quota below a millisecond. */
const periodMicroseconds = (cpus: number) => Math.max(100_000, Math.ceil(1000 / cpus))

function confineV2({ memoryBytes, cpus }: Limits, below: string): Confinement {
  const holder = join(root, parent, below)
  mkdirSync(holder, { recursive: true })
  const steps = relative(root, holder).split('/')
  for (const count of [root, ...steps].keys())
    writeFileSync(join(root, ...steps.slice(0, count), 'cgroup.subtree_control'), '+memory +cpu')
  const group = mkdtempSync(join(holder, 'process-'))
  if (memoryBytes !== undefined) {
    writeFileSync(join(group, 'memory.max'), String(memoryBytes))
    // As with kubelet, containers have no swap.
    if (existsSync(join(group, 'memory.swap.max'))) writeFileSync(join(group, 'memory.swap.max'), '0')
  }
  if (cpus !== undefined)
    writeFileSync(join(group, 'cpu.max'), `${Math.round(cpus * periodMicroseconds(cpus))} ${periodMicroseconds(cpus)}`)
  return {
    wrap: inside([group]),
    usage: () => ({
      oomKills: field(join(group, 'memory.events'), 'oom_kill'),
      peakBytes: Number(readFileSync(join(group, 'memory.peak'), 'utf8')),
      cpuSeconds: field(join(group, 'cpu.stat'), 'usage_usec') / 1e6,
    }),
    remove: () => rmdirSync(group),
  }
}

function confineV1({ memoryBytes, cpus }: Limits, below: string): Confinement {
  const group = (controller: string): string => {
    const holder = join(root, controller, parent, below)
    mkdirSync(holder, { recursive: true })
    return mkdtempSync(join(holder, 'process-'))
  }
  const [memory, cpu, cpuacct] = [group('memory'), group('cpu'), group('cpuacct')]
  if (memoryBytes !== undefined) {
    writeFileSync(join(memory, 'memory.limit_in_bytes'), String(memoryBytes))
    writeFileSync(join(memory, 'memory.memsw.limit_in_bytes'), String(memoryBytes))
  }
  if (cpus !== undefined) {
    writeFileSync(join(cpu, 'cpu.cfs_period_us'), String(periodMicroseconds(cpus)))
    writeFileSync(join(cpu, 'cpu.cfs_quota_us'), String(Math.round(cpus * periodMicroseconds(cpus))))
  }
  return {
    wrap: inside([memory, cpu, cpuacct]),
    usage: () => ({
      oomKills: field(join(memory, 'memory.oom_control'), 'oom_kill'),
      peakBytes: Number(readFileSync(join(memory, 'memory.max_usage_in_bytes'), 'utf8')),
      cpuSeconds: Number(readFileSync(join(cpuacct, 'cpuacct.usage'), 'utf8')) / 1e9,
    }),
    remove: () => {
      for (const one of [memory, cpu, cpuacct]) rmdirSync(one)
    },
  }
}

/** A shell joins the groups and then executes the command, so that even its start is inside. */
const inside =
  (groups: readonly string[]) =>
  (command: readonly string[]): [string, ...string[]] => {
    const enter = groups.map((group) => `echo $$ > ${join(group, 'cgroup.procs')}`).join(' && ')
    return ['/bin/sh', '-c', `${enter} && exec "$@"`, 'sh', ...command]
  }

/** The number of a name in a file with a name and a number on each line. */
function field(file: string, name: string): number {
  const line = readFileSync(file, 'utf8')
    .split('\n')
    .find((one) => one.startsWith(`${name} `))
  if (line === undefined) throw new Error(`${file} has no field ${name}`)
  return Number(line.slice(name.length + 1))
}
