import fc from 'fast-check'
import type { Domain } from '../../api/domain/domain.ts'
import type { VirtualMachine } from '../../api/virtual-machine.ts'
import { apiVersion } from '../../api/object.ts'
import type { Preset } from '../../api/preset.ts'

/** VMs and presets that affect each other, to compare two ways of completion. */
export interface Pairs {
  readonly vms: readonly VirtualMachine[]
  readonly presets: readonly Preset[]
}

/** The same in every run. */
export function samplePairs(namespace: string, vmCount: number, presetCount: number): Pairs {
  const sample = <T>(count: number, of: (namespace: string, index: number) => fc.Arbitrary<T>): readonly T[] =>
    fc.sample(fc.tuple(...Array.from({ length: count }, (_, index) => of(namespace, index))), {
      numRuns: 1,
      seed: 8,
    })[0] ?? []
  return { vms: sample(vmCount, vmOf), presets: sample(presetCount, presetOf) }
}

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

/** Each target has its own volume. */
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

/** The parts of VMs and presets; some conflict, so that refusals are compared as well. */
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

const vmOf = (namespace: string, index: number) =>
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

const presetOf = (namespace: string, index: number) =>
  fc
    .record({
      isCluster: fc.boolean(),
      matchLabels: labels,
      // The last rank occurs twice, so that there are conflicts; the first often wins.
      priority: fc.constantFrom(index, index, index, 1000),
      strength: fc.constantFrom('Default' as const, 'Default' as const, 'Enforce' as const),
      mode: fc.constantFrom('Apply' as const, 'Apply' as const, 'Apply' as const, 'Warn' as const),
      condition: fc.constantFrom(
        undefined,
        'has(object.metadata.labels.tier)',
        'request.operation == "CREATE" && request.namespace.size() > 0',
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
