import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { parseAllDocuments } from 'yaml'
import { quantityNano, quantityValue } from '../api/quantity.ts'

/** What a container may use at most; absent: as much as the machine has. */
export interface Limits {
  readonly memoryBytes?: number
  readonly cpus?: number
}

export interface Usage {
  /** Processes that the kernel killed because the memory limit was reached. */
  readonly oomKills: number
  /** Highest memory use, as the limit counts it: page cache included. */
  readonly peakBytes: number
  readonly cpuSeconds: number
}

/** A cgroup of its own for one process and its children. */
export interface Confinement {
  /** The command that runs `command` inside the limits. The process keeps its pid. */
  readonly wrap: (command: readonly string[]) => [string, ...string[]]
  readonly usage: () => Usage
  /** Removes the cgroup. Its processes must have ended. */
  readonly remove: () => void
}

/**
 * The limits of a container in a manifest with a Deployment or DaemonSet, e.g. of `webhooks` in `manifests/webhooks/deployment.yaml`.
 *
 * @throws Error when the manifest has no such container
 */
export function limitsOf(manifest: string, container: string): Limits {
  const found = parseAllDocuments(readFileSync(manifest, 'utf8'))
    .map((document): Workload => document.toJS())
    .flatMap(({ spec }) => spec?.template?.spec.containers ?? [])
    .find(({ name }) => name === container)
  if (found === undefined) throw new Error(`${manifest} has no container ${container}`)
  const { memory, cpu } = found.resources?.limits ?? {}
  const memoryBytes = memory === undefined ? undefined : quantityValue(memory)
  const nanoCpus = cpu === undefined ? undefined : quantityNano(`${cpu}`)
  return {
    ...(memoryBytes === undefined ? {} : { memoryBytes: Number(memoryBytes) }),
    ...(nanoCpus === undefined ? {} : { cpus: Number(nanoCpus) / 1e9 }),
  }
}

interface Workload {
  readonly spec?: { readonly template?: { readonly spec: { readonly containers: readonly Container[] } } }
}

interface Container {
  readonly name: string
  readonly resources?: { readonly limits?: { readonly memory?: string; readonly cpu?: string | number } }
}

/** Creates a cgroup with these limits below `virtset-test`, in cgroup v2 or in the controllers of v1. Takes root. */
export function confine(limits: Limits): Confinement {
  return existsSync(join(root, 'cgroup.controllers')) ? confineV2(limits) : confineV1(limits)
}

const root = '/sys/fs/cgroup'
const parent = 'virtset-test'
const periodMicroseconds = 100_000

function confineV2({ memoryBytes, cpus }: Limits): Confinement {
  for (const directory of [root, join(root, parent)]) {
    mkdirSync(directory, { recursive: true })
    writeFileSync(join(directory, 'cgroup.subtree_control'), '+memory +cpu')
  }
  const group = mkdtempSync(join(root, parent, 'process-'))
  if (memoryBytes !== undefined) {
    writeFileSync(join(group, 'memory.max'), String(memoryBytes))
    // kubelet gives containers no swap either.
    if (existsSync(join(group, 'memory.swap.max'))) writeFileSync(join(group, 'memory.swap.max'), '0')
  }
  if (cpus !== undefined)
    writeFileSync(join(group, 'cpu.max'), `${Math.round(cpus * periodMicroseconds)} ${periodMicroseconds}`)
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

function confineV1({ memoryBytes, cpus }: Limits): Confinement {
  const group = (controller: string): string => {
    mkdirSync(join(root, controller, parent), { recursive: true })
    return mkdtempSync(join(root, controller, parent, 'process-'))
  }
  const [memory, cpu, cpuacct] = [group('memory'), group('cpu'), group('cpuacct')]
  if (memoryBytes !== undefined) {
    writeFileSync(join(memory, 'memory.limit_in_bytes'), String(memoryBytes))
    writeFileSync(join(memory, 'memory.memsw.limit_in_bytes'), String(memoryBytes))
  }
  if (cpus !== undefined) {
    writeFileSync(join(cpu, 'cpu.cfs_period_us'), String(periodMicroseconds))
    writeFileSync(join(cpu, 'cpu.cfs_quota_us'), String(Math.round(cpus * periodMicroseconds)))
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

/** A shell enters the groups and then becomes the command, so that not even its start is outside. */
const inside =
  (groups: readonly string[]) =>
  (command: readonly string[]): [string, ...string[]] => {
    const enter = groups.map((group) => `echo $$ > ${join(group, 'cgroup.procs')}`).join(' && ')
    return ['/bin/sh', '-c', `${enter} && exec "$@"`, 'sh', ...command]
  }

/** The number behind a name in a file with a name and a number on each line. */
function field(file: string, name: string): number {
  const line = readFileSync(file, 'utf8')
    .split('\n')
    .find((one) => one.startsWith(`${name} `))
  if (line === undefined) throw new Error(`${file} has no field ${name}`)
  return Number(line.slice(name.length + 1))
}
