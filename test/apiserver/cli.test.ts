import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import fc from 'fast-check'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { Domain } from '../../api/domain/domain.ts'
import type { VirtualMachine } from '../../api/machine.ts'
import { apiVersion } from '../../api/object.ts'
import type { Preset } from '../../api/preset.ts'
import { kubeconfigAccess } from '../../runtime/access.ts'
import { ApiError } from '../../runtime/api-error.ts'
import { createKubeClient, type KubeClient } from '../../runtime/kube.ts'
import { clusterVirtualMachinePresets, virtualMachinePresets, virtualMachines } from '../../runtime/resource.ts'
import { createEngine } from '../../webhooks/engine.ts'
import { say } from '../cli/world.ts'
import { until } from '../until.ts'
import { startApiServer, type TestApiServer } from './apiserver.ts'
import { startWebhooks, type TestWebhooks } from './webhooks.ts'

const namespace = 'default'
const pairs = 200

let api: TestApiServer
let webhooks: TestWebhooks
let kube: KubeClient
let folder: string
/** The uid of the request that created a VM, by its name: what identities are drawn from. */
const uids = new Map<string, string>()

beforeAll(async () => {
  api = await startApiServer()
  webhooks = await startWebhooks(api, (caches) => {
    const engine = createEngine(caches, (_, { verb }) => Promise.resolve(verb === 'grant-host'))
    return {
      ...engine,
      complete: (machine, review, permissions) => {
        uids.set(review.name, uids.get(review.name) ?? review.uid)
        return engine.complete(machine, review, permissions)
      },
    }
  })
  kube = createKubeClient({ access: await kubeconfigAccess({ file: api.kubeconfig }), userAgent: 'test' })
  folder = await mkdtemp(join(tmpdir(), 'virtset-cli-'))
})
afterAll(async () => {
  await kube?.close()
  await webhooks?.stop()
  await api?.stop()
  if (folder !== undefined) await rm(folder, { recursive: true })
})

/** `kubectl vm` with the kubeconfig of the test's cluster. */
const online = (...words: string[]) =>
  say(words, {
    cluster: async () => {
      const access = await kubeconfigAccess({ file: api.kubeconfig })
      return { kube: createKubeClient({ access, userAgent: 'kubectl-vm' }), server: access.server }
    },
  })

type Devices = NonNullable<Domain['devices']>
type Disk = NonNullable<Devices['disks']>[number]

const labels = fc.record(
  {
    size: fc.constantFrom('small', 'large'),
    tier: fc.constantFrom('a', 'b', 'c'),
    os: fc.constantFrom('linux', 'windows'),
  },
  { requiredKeys: [] },
)

const targets = { vda: 'virtio', vdb: 'virtio', sda: 'sata' } as const

/** Each target has a volume of its own, so that no two disks share one. */
const disk = fc
  .record({
    dev: fc.constantFrom('vda' as const, 'vdb' as const, 'sda' as const),
    hasBus: fc.boolean(),
    driver: fc.constantFrom<NonNullable<Disk['driver']>>({ cache: 'none' }, { name: 'qemu', type: 'raw' }),
  })
  .map(({ dev, hasBus, driver }): Disk => ({
    type: 'volume',
    source: { volume: dev },
    target: { dev, ...(hasBus ? { bus: targets[dev] } : {}) },
    driver,
  }))

/** What VMs and presets are made of: some of it does not go together, so that refusals are compared as well. */
const domain = fc.record(
  {
    vcpu: fc.record({ value: fc.integer({ min: 1, max: 8 }) }),
    memory: fc.record({ unit: fc.constantFrom('MiB', 'MB', 'KiB'), value: fc.integer({ min: 65_536, max: 262_144 }) }),
    cpu: fc.constantFrom<NonNullable<Domain['cpu']>>(
      { mode: 'host-model' as const },
      { topology: { sockets: 1, cores: 2, threads: 2 } },
      { mode: 'maximum' as const },
    ),
    features: fc.constantFrom<NonNullable<Domain['features']>>(
      { acpi: {} },
      { acpi: {}, apic: {} },
      { hyperv: { relaxed: { state: true } } },
    ),
    clock: fc.constantFrom<NonNullable<Domain['clock']>>(
      { offset: 'utc' as const },
      { offset: 'localtime' as const, timers: [{ name: 'hpet' as const, present: false }] },
    ),
    onReboot: fc.constantFrom('restart' as const, 'destroy' as const),
    devices: fc.record(
      {
        disks: fc.uniqueArray(disk, { maxLength: 2, selector: ({ target }) => target?.dev }),
        interfaces: fc.constantFrom<NonNullable<Devices['interfaces']>>(
          [{ type: 'user' as const }],
          [{ type: 'user' as const, model: { type: 'virtio' } }],
          [],
        ),
        serials: fc.constantFrom<NonNullable<Devices['serials']>>([{ type: 'pty' as const }], []),
        videos: fc.constantFrom<NonNullable<Devices['videos']>>(
          [{ model: { type: 'virtio' as const } }],
          [{ model: { type: 'vga' as const } }],
        ),
        memballoon: fc.constantFrom<NonNullable<Devices['memballoon']>>(
          { model: 'none' as const },
          { model: 'virtio' as const },
        ),
      },
      { requiredKeys: [] },
    ),
  },
  { requiredKeys: [] },
)

const machineOf = (index: number) =>
  fc
    .record({
      labels,
      domain,
      machine: fc.constantFrom('pc', 'q35', undefined),
      isReacher: fc.integer({ min: 0, max: 9 }).map((die) => die === 0),
    })
    .map(({ labels: own, domain: given, machine, isReacher }): VirtualMachine => ({
      apiVersion,
      kind: 'VirtualMachine',
      metadata: { name: `vm-${index}`, namespace, labels: own },
      spec: {
        domain: {
          type: 'qemu',
          memory: { unit: 'MiB', value: 64 },
          ...given,
          devices: { ...given.devices, ...(isReacher ? { emulator: '/usr/bin/something-else' } : {}) },
          os: { type: { os: 'hvm', ...(machine === undefined ? {} : { machine }) } },
        },
        volumes: Object.keys(targets).map((target) => ({ name: target, emptyDisk: { capacity: '1Gi' } })),
      },
    }))

const presetOf = (index: number) =>
  fc
    .record({
      isCluster: fc.boolean(),
      matchLabels: labels,
      // The last rank is taken twice, so that there are conflicts; the first often wins.
      priority: fc.constantFrom(index, index, index, 1000),
      strength: fc.constantFrom('Default' as const, 'Default' as const, 'Enforce' as const),
      mode: fc.constantFrom('Apply' as const, 'Apply' as const, 'Apply' as const, 'Warn' as const),
      condition: fc.constantFrom(
        undefined,
        'has(object.metadata.labels.tier)',
        'request.operation == "CREATE" && request.namespace == "default"',
        '"kubernetes.io/metadata.name" in namespaceObject.metadata.labels',
        'object.spec.domain.vcpu.value > 4',
      ),
      domain,
      injected: fc.constantFrom({}, { metadata: { labels: { injected: `by-${index}` } } }),
    })
    .map(({ isCluster, matchLabels, priority, strength, mode, condition, domain: content, injected }): Preset => {
      return {
        apiVersion,
        kind: isCluster ? 'ClusterVirtualMachinePreset' : 'VirtualMachinePreset',
        metadata: { name: `preset-${index}`, ...(isCluster ? {} : { namespace }) },
        spec: {
          selector: { matchLabels: { ...matchLabels, tier: matchLabels.tier ?? 'a' } },
          priority,
          strength,
          mode,
          ...(condition === undefined ? {} : { matchConditions: [{ name: 'condition', expression: condition }] }),
          domain: content,
          ...injected,
        },
      }
    })

/** Without what the API server itself puts there. */
const stored = ({ metadata, spec }: VirtualMachine) => ({
  labels: metadata.labels ?? {},
  annotations: metadata.annotations,
  finalizers: metadata.finalizers,
  spec,
})

describe('offline is online', () => {
  const presets =
    fc.sample(fc.tuple(...Array.from({ length: 40 }, (_, index) => presetOf(index))), { numRuns: 1, seed: 8 })[0] ?? []
  const machines =
    fc.sample(fc.tuple(...Array.from({ length: pairs }, (_, index) => machineOf(index))), { numRuns: 1, seed: 8 })[0] ??
    []
  const files = () => ({
    presets: join(folder, 'presets.json'),
    machine: (name: string) => join(folder, `${name}.json`),
  })

  beforeAll(async () => {
    for (const preset of presets) {
      await kube.create(
        preset.kind === 'VirtualMachinePreset' ? virtualMachinePresets : clusterVirtualMachinePresets,
        preset,
      )
    }
    await until(() => webhooks.caches.candidates.size() === presets.length)
    await writeFile(files().presets, JSON.stringify({ kind: 'List', items: presets }))
    for (const machine of machines) {
      await writeFile(files().machine(machine.metadata.name ?? ''), JSON.stringify(machine))
    }
  })

  test(`for ${pairs} VMs with any of ${presets.length} presets, refusals among them`, async () => {
    const outcomes = { completed: 0, refused: 0 }
    for (const machine of machines) {
      const name = machine.metadata.name ?? ''
      const persisted = await kube.create(virtualMachines, machine).catch((error: unknown) => {
        if (error instanceof ApiError) return error
        throw error
      })
      const uid = uids.get(name) ?? ''
      const said = await say([
        'complete',
        files().machine(name),
        '--presets',
        files().presets,
        '--uid',
        uid,
        '-o',
        'json',
        '-q',
      ])
      const isRefused = persisted instanceof ApiError
      outcomes[isRefused ? 'refused' : 'completed']++
      expect({ ...said, out: said.code === 0 ? stored(JSON.parse(said.out)) : said.out }).toEqual(
        isRefused
          ? { code: 1, out: '', err: `${kubectlText(persisted)}\n` }
          : { code: 0, out: stored(persisted), err: '' },
      )
    }
    // Neither side may be all there is.
    expect(outcomes.completed).toBeGreaterThan(pairs / 4)
    expect(outcomes.refused).toBeGreaterThan(pairs / 20)
  })

  test('with the presets of the cluster as with those of a file', async () => {
    for (const machine of machines.slice(0, 20)) {
      const file = files().machine(machine.metadata.name ?? '')
      const rest = ['-o', 'json', '--uid', 'same']
      const [here, there] = [
        await say(['complete', file, '--presets', files().presets, ...rest]),
        await online('complete', file, ...rest),
      ]
      expect(there).toEqual(here)
    }
  })

  test('a stored VM is explained by its own provenance', async () => {
    const { items } = await kube.list(virtualMachines)
    const name = items.find(({ metadata }) => metadata.labels?.['tier'] !== undefined)?.metadata.name ?? ''
    const offline = JSON.parse(
      (
        await say([
          'explain',
          files().machine(name),
          '--presets',
          files().presets,
          '-o',
          'json',
          '--uid',
          uids.get(name) ?? '',
        ])
      ).out,
    )
    const said = await online('explain', name, '-o', 'json')
    const explained = JSON.parse(said.out)
    const withoutValues = (fields: { path: string; overridden?: unknown }[]) =>
      Object.fromEntries(fields.map((field) => [field.path, { ...field, overridden: undefined }]))
    expect(withoutValues(explained.fields)).toEqual(withoutValues(offline.fields))
    const outcomes = (presets: { preset: string; outcome: string }[]) =>
      presets.map(({ preset, outcome }) => [preset, outcome])
    expect(outcomes(explained.presets)).toEqual(outcomes(offline.presets))
  })

  test('nothing is written by asking for the impact of a preset', async () => {
    const before = await kube.list(virtualMachines)
    const file = join(folder, 'reboot.json')
    const preset = {
      apiVersion,
      kind: 'ClusterVirtualMachinePreset',
      metadata: { name: 'crash' },
      spec: { selector: {}, strength: 'Enforce', domain: { onCrash: 'coredump-destroy' } },
    }
    await writeFile(file, JSON.stringify(preset))
    const { code, out } = await online('impact', '--presets', file, '-o', 'json')
    expect([code, JSON.parse(out).total]).toEqual([
      1,
      { vms: before.items.length, different: before.items.length, refused: 0, conflicts: 0, freed: 0 },
    ])
    const after = await kube.list(virtualMachines)
    expect(after.items.map(({ metadata }) => metadata.resourceVersion)).toEqual(
      before.items.map(({ metadata }) => metadata.resourceVersion),
    )
  })

  test('what the cluster does not have is said', async () => {
    expect(await online('explain', 'nobody')).toEqual({
      code: 2,
      out: '',
      err: `error: there is no VM "nobody" in namespace "default" of ${api.server}\n`,
    })
    const file = join(folder, 'elsewhere.json')
    await writeFile(file, JSON.stringify({ ...machines[0], metadata: { name: 'x', namespace: 'elsewhere' } }))
    expect((await online('complete', file)).err).toBe(
      'error: from server (NotFound): namespaces "elsewhere" not found\n',
    )
  })
})

/** What kubectl prints of a refusal, from the Status that it gets. */
function kubectlText({ status }: ApiError): string {
  const {
    causes = [],
    kind,
    name,
  } = (status.details ?? {}) as {
    causes?: { field: string; message: string }[]
    kind?: string
    name?: string
  }
  const lines = causes.map(({ field, message }) => `${field}: ${message}`)
  const head = `The ${kind} "${name}" is invalid: `
  return lines.length === 1 ? `${head}${lines[0]}` : [head, ...lines.map((line) => `* ${line}`)].join('\n')
}
