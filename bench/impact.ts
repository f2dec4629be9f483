import { spawn } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import type { Domain } from '../api/domain/domain.ts'
import type { VirtualMachine } from '../api/virtual-machine.ts'
import { apiVersion } from '../api/object.ts'
import type { Preset } from '../api/preset.ts'
import { bundledCapabilities } from '../completion/capabilities.ts'
import { complete } from '../completion/complete.ts'
import { createCandidates } from '../presets/candidates.ts'
import { compilePreset } from '../presets/compile.ts'
import { kubeconfigAccess } from '../runtime/access.ts'
import { createKubeClient } from '../runtime/kube.ts'
import {
  clusterVirtualMachinePresets,
  namespaces,
  virtualMachinePresets,
  virtualMachines,
} from '../runtime/resource.ts'
import { startApiServer } from '../test/apiserver/apiserver.ts'
import { installKinds } from '../test/apiserver/kinds.ts'

/**
 * Time and memory of `kubectl vm impact` with 10,000 stored VMs and 1,000 presets: for a preset that selects one VM in
 * a hundred, and for one that selects all, so that every VM is completed twice. Reads from a file and, if KUBE_BIN_DIR
 * is set (see `make binaries`), from a kube-apiserver, which takes a minute to fill.
 *
 *     npm run -s bench:impact [-- --vms 10000 --presets 1000 --json]
 */
const { values } = parseArgs({
  options: {
    vms: { type: 'string', default: '10000' },
    presets: { type: 'string', default: '1000' },
    json: { type: 'boolean', default: false },
  },
})
const [vmCount, presetCount] = [Number(values.vms), Number(values.presets)]

const spaces = Array.from({ length: 20 }, (_, index) => `team-${index}`)
const apps = 100
const spaceOf = (index: number): string => spaces[index % spaces.length] ?? ''
/** Each namespace has VMs of all apps. */
const appOf = (index: number): string => `app-${Math.floor(index / spaces.length) % apps}`

/** VMs as users write them: one to three disks, a network, labels for presets. */
const written = (index: number): VirtualMachine => ({
  apiVersion,
  kind: 'VirtualMachine',
  metadata: {
    name: `vm-${index}`,
    namespace: spaceOf(index),
    labels: { app: appOf(index), size: index % 3 === 0 ? 'large' : 'small', tier: `t${index % 4}` },
  },
  spec: {
    domain: {
      type: 'kvm',
      memory: { unit: 'MiB', value: 512 },
      os: { type: { os: 'hvm', machine: index % 2 === 0 ? 'q35' : 'pc' } },
      devices: {
        disks: Array.from({ length: 1 + (index % 3) }, (_, disk) => ({
          type: 'volume' as const,
          device: 'disk' as const,
          source: { volume: `disk-${disk}` },
          target: { dev: `vd${'abc'.charAt(disk)}`, bus: 'virtio' as const },
        })),
        interfaces: [{ type: 'user' as const, model: { type: 'virtio' } }],
      },
    },
    volumes: Array.from({ length: 1 + (index % 3) }, (_, disk) => ({
      name: `disk-${disk}`,
      emptyDisk: { capacity: '1Gi' },
    })),
  },
})

const contents: readonly Domain[] = [
  { vcpu: { value: 2 } },
  { clock: { offset: 'utc' } },
  { features: { acpi: {} } },
  { devices: { serials: [{ type: 'pty', target: { port: 0 } }] } },
  { onCrash: 'restart' },
]

/** A tenth are cluster presets. The rest belong to namespaces and select by app, so four to six match each VM. */
function presetOf(index: number): Preset {
  const domain = contents[index % contents.length] ?? {}
  const priority = index
  if (index % 10 === 0) {
    return {
      apiVersion,
      kind: 'ClusterVirtualMachinePreset',
      metadata: { name: `cluster-${index}` },
      spec: { selector: { matchLabels: { app: `app-${index / 10}` } }, priority, domain },
    }
  }
  return {
    apiVersion,
    kind: 'VirtualMachinePreset',
    metadata: { name: `preset-${index}`, namespace: spaceOf(index) },
    spec: {
      selector: { matchLabels: index < 200 ? { tier: `t${index % 4}` } : { app: `app-${index % apps}` } },
      priority,
      domain,
    },
  }
}

function preset(name: string, selector: object): Preset {
  const spec = { selector, domain: { onLockfailure: 'pause' as const } }
  return { apiVersion, kind: 'ClusterVirtualMachinePreset', metadata: { name }, spec }
}

const proposed = {
  'one VM of 100': preset('new', { matchLabels: { app: 'app-7' } }),
  'every VM': preset('new', {}),
}

const presets = Array.from({ length: presetCount }, (_, index) => presetOf(index))
const candidates = createCandidates(
  presets.map((one) => {
    const compiled = compilePreset(one)
    if ('quarantined' in compiled) throw new Error(JSON.stringify(compiled.quarantined.causes))
    return compiled.preset
  }),
)

/** The VM as the webhooks would have stored it, with provenance. */
function stored(index: number): VirtualMachine {
  const vm = written(index)
  const name = vm.metadata.namespace ?? ''
  const outcome = complete(vm, {
    presets: candidates,
    namespace: { name, labels: { 'kubernetes.io/metadata.name': name } },
    capabilities: bundledCapabilities,
    entropy: { uid: String(index) },
  })
  if (outcome.outcome === 'refused') throw new Error(JSON.stringify(outcome.causes))
  return outcome.vm
}

interface Result {
  readonly from: string
  readonly selected: string
  readonly seconds: number
  /** CPU time of the process and its threads, which other load on the host affects less. */
  readonly cpuSeconds: number
  readonly peakMiB: number
}

const folder = mkdtempSync(join(tmpdir(), 'virtset-impact-'))
const main = join(import.meta.dirname, '../cli/main.ts')
const results: Result[] = []

async function measure(from: string, words: readonly string[]): Promise<void> {
  for (const [selected, one] of Object.entries(proposed)) {
    const file = join(folder, 'new.json')
    writeFileSync(file, JSON.stringify(one))
    const startMs = performance.now()
    const child = spawn(process.execPath, [main, 'impact', '--presets', file, '-o', 'json', ...words])
    let [output, peakKiB, ticks] = ['', 0, 0]
    child.stdout.on('data', (chunk: Buffer) => (output += chunk.toString()))
    child.stderr.on('data', (chunk: Buffer) => (output += chunk.toString()))
    const timer = setInterval(() => {
      peakKiB = Math.max(peakKiB, peakOf(child.pid ?? 0))
      ticks = Math.max(ticks, ticksOf(child.pid ?? 0))
    }, 20)
    const code = await new Promise<number | null>((resolve) => child.once('close', resolve))
    clearInterval(timer)
    const seconds = (performance.now() - startMs) / 1000
    if (code !== 1) throw new Error(`ended with ${code}: ${output}`)
    const { total } = JSON.parse(output)
    if (total.vms !== vmCount || total.different === 0) throw new Error(`not what was made: ${JSON.stringify(total)}`)
    results.push({
      from,
      selected,
      seconds: Number(seconds.toFixed(1)),
      cpuSeconds: ticks / ticksPerSecond,
      peakMiB: Math.round(peakKiB / 1024),
    })
  }
}

/** A file of a process in /proc; empty if the process has ended. */
function readProcess(pid: number, name: string): string {
  try {
    return readFileSync(`/proc/${pid}/${name}`, 'utf8')
  } catch {
    return ''
  }
}

/** The peak memory of a process in KiB. */
const peakOf = (pid: number): number => Number(/^VmHWM:\s+(\d+) kB$/m.exec(readProcess(pid, 'status'))?.[1] ?? 0)

/** The kernel's unit on every platform of Node. */
const ticksPerSecond = 100

/** utime and stime, the 12th and 13th field after the name in parentheses. */
function ticksOf(pid: number): number {
  const fields = readProcess(pid, 'stat').split(') ').at(-1)?.split(' ') ?? []
  return Number(fields[11] ?? 0) + Number(fields[12] ?? 0)
}

try {
  const dump = join(folder, 'dump.json')
  const vms = Array.from({ length: vmCount }, (_, index) => stored(index))
  writeFileSync(dump, JSON.stringify({ kind: 'List', items: [...presets, ...vms] }))
  await measure('a file', ['--vms', dump])
  if (process.env['KUBE_BIN_DIR'] !== undefined) {
    const api = await startApiServer()
    try {
      await installKinds(api)
      const access = await kubeconfigAccess({ file: api.kubeconfig })
      const kube = createKubeClient({ access, userAgent: 'bench' })
      for (const name of spaces)
        await kube.create(namespaces, { apiVersion: 'v1', kind: 'Namespace', metadata: { name } })
      for (const one of presets) {
        await kube.create(
          one.kind === 'VirtualMachinePreset' ? virtualMachinePresets : clusterVirtualMachinePresets,
          one,
        )
      }
      const left = vms.values()
      const work = async (): Promise<void> => {
        for (const vm of left) await kube.create(virtualMachines, vm)
      }
      await Promise.all(Array.from({ length: 8 }, work))
      await kube.close()
      await measure('a cluster', ['--kubeconfig', api.kubeconfig])
    } finally {
      await api.stop()
    }
  }
} finally {
  rmSync(folder, { recursive: true })
}
if (values.json) console.log(JSON.stringify(results))
else console.table(results)
