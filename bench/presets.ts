import { parseArgs } from 'node:util'
import type { VirtualMachine } from '../api/virtual-machine.ts'
import { parseVirtualMachine } from '../api/virtual-machine.ts'
import { readManifests } from '../cli/input.ts'
import { createCandidates } from '../presets/candidates.ts'
import type { CompiledPreset } from '../presets/compile.ts'
import { compilePreset } from '../presets/compile.ts'
import { inject } from '../presets/inject.ts'

/**
 * The time of selecting and merging presets for one VM, without libvirt's defaults and without the patch.
 *
 *     npm run -s bench:presets -- --vm FILE --presets FILE --json     with these manifests: YAML documents, a List, JSON
 *     npm run -s bench:presets                                       10 to 10,000 presets, 3 of which match
 */
const { values } = parseArgs({
  options: { vm: { type: 'string' }, presets: { type: 'string' }, json: { type: 'boolean', default: false } },
})

interface Measured {
  readonly presets: number
  readonly matching: number
  /** Median, in microseconds. */
  readonly usPerVm: number
}

const batches = 200
const batchMs = 5

async function* nothing(): AsyncGenerator<never> {}

async function readVm(file: string): Promise<VirtualMachine> {
  const found = (await readManifests([file], nothing())).find(({ kind }) => kind === 'VirtualMachine')
  const parsed = parseVirtualMachine(found)
  if ('causes' in parsed) throw new Error(`${file}: ${JSON.stringify(parsed.causes)}`)
  return parsed.vm
}

async function readPresets(file: string): Promise<CompiledPreset[]> {
  return (await readManifests([file], nothing())).map((value) => {
    const compiled = compilePreset(value)
    if ('quarantined' in compiled) throw new Error(`${file}: ${JSON.stringify(compiled.quarantined.causes)}`)
    return compiled.preset
  })
}

/** The median of rounds that are long enough for the clock. */
function medianUs(run: () => unknown): number {
  let rounds = 1
  let tookMs = 0
  do {
    rounds *= 2
    tookMs = time(run, rounds)
  } while (tookMs < batchMs)
  const all = Array.from({ length: batches }, () => (time(run, rounds) * 1000) / rounds).toSorted((a, b) => a - b)
  return all[Math.floor(batches / 2)] ?? 0
}

function time(run: () => unknown, rounds: number): number {
  const start = performance.now()
  for (let round = 0; round < rounds; round++) run()
  return performance.now() - start
}

function measure(vm: VirtualMachine, compiled: readonly CompiledPreset[]): Measured {
  const name = vm.metadata.namespace ?? 'default'
  const options = {
    presets: createCandidates(compiled),
    namespace: { name, labels: { 'kubernetes.io/metadata.name': name } },
  }
  const { participants, causes } = inject(vm, options)
  if (causes.length > 0) throw new Error(`the VM is refused: ${JSON.stringify(causes)}`)
  return {
    presets: compiled.length,
    matching: participants.length,
    usPerVm: Number(medianUs(() => inject(vm, options)).toFixed(2)),
  }
}

/** This many presets, three of which select the VM. */
function manyPresets(count: number): CompiledPreset[] {
  return Array.from({ length: count }, (_, index) => {
    const matchLabels = index < 3 ? { tier: `t${index}` } : { app: `app-${index}`, team: 'a' }
    const contents = [{ vcpu: { value: 2 } }, { memory: { unit: 'MiB', value: 512 } }, { onReboot: 'restart' }]
    const compiled = compilePreset({
      apiVersion: 'virtset.io/v1alpha1',
      kind: 'VirtualMachinePreset',
      metadata: { name: `p${index}`, namespace: 'default' },
      spec: {
        selector: index < 3 ? { matchExpressions: [{ key: `tier-${index}`, operator: 'Exists' }] } : { matchLabels },
        domain: contents[index % 3],
      },
    })
    if ('quarantined' in compiled) throw new Error(JSON.stringify(compiled.quarantined.causes))
    return compiled.preset
  })
}

const example: VirtualMachine = {
  apiVersion: 'virtset.io/v1alpha1',
  kind: 'VirtualMachine',
  metadata: {
    name: 'vm',
    namespace: 'default',
    labels: { team: 'a', app: 'web', 'tier-0': '', 'tier-1': '', 'tier-2': '' },
  },
  spec: { domain: { type: 'qemu', os: { type: { os: 'hvm' } } } },
}

if (values.vm !== undefined && values.presets !== undefined) {
  const result = measure(await readVm(values.vm), await readPresets(values.presets))
  console.log(values.json ? JSON.stringify(result) : result)
} else {
  const clone = Number(medianUs(() => structuredClone(example)).toFixed(2))
  const results = [10, 100, 1000, 10_000].map((count) => measure(example, manyPresets(count)))
  if (values.json) console.log(JSON.stringify({ results, structuredCloneUs: clone }))
  else {
    console.table(results)
    console.log(`structuredClone of the VM: ${clone} µs`)
  }
}
