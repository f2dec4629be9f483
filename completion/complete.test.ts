import { isDeepStrictEqual } from 'node:util'
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { deepFreeze } from '../api/deep-freeze.ts'
import { completedByAnnotation, type VirtualMachineSpec, type VirtualMachine } from '../api/virtual-machine.ts'
import type { Preset, PresetSpec } from '../api/preset.ts'
import { createCandidates } from '../presets/candidates.ts'
import { compileParsed } from '../presets/compile.ts'
import { bundledCapabilities } from './capabilities.ts'
import { complete, ungrantedReach, type Completed } from './complete.ts'
import { originOf } from './origins.ts'
import { decodeProvenance } from './provenance.ts'

function vmWith(spec: Partial<VirtualMachineSpec['domain']> = {}, labels: Record<string, string> = {}): VirtualMachine {
  return deepFreeze({
    apiVersion: 'virtset.io/v1alpha1',
    kind: 'VirtualMachine',
    metadata: { name: 'vm', namespace: 'default', labels },
    spec: {
      domain: {
        type: 'qemu',
        memory: { unit: 'MB', value: 64 },
        os: { type: { os: 'hvm' } },
        devices: {
          disks: [
            {
              type: 'network',
              source: { protocol: 'iscsi', name: 'iqn.x:y/2', host: { name: 'target.default', port: '3260' } },
              target: { dev: 'vda' },
            },
          ],
        },
        ...spec,
      },
    },
  })
}

function preset(name: string, spec: Partial<PresetSpec>, namespace?: string): Preset {
  return {
    apiVersion: 'virtset.io/v1alpha1',
    kind: namespace === undefined ? 'ClusterVirtualMachinePreset' : 'VirtualMachinePreset',
    metadata: { name, ...(namespace === undefined ? {} : { namespace }) },
    spec: { selector: {}, ...spec },
  }
}

const optionsOf = (presets: readonly Preset[], uid: string) => ({
  presets: createCandidates(presets.map(compileParsed)),
  namespace: { name: 'default', labels: {} },
  capabilities: bundledCapabilities,
  entropy: { uid },
})

const run = (vm: VirtualMachine, presets: readonly Preset[] = [], uid = 'request-1') =>
  complete(vm, optionsOf(presets, uid))

function completed(vm: VirtualMachine, presets: readonly Preset[] = [], uid?: string): Completed {
  const outcome = run(vm, presets, uid)
  if (outcome.outcome === 'refused') throw new Error(JSON.stringify(outcome.causes, null, 2))
  return outcome
}

const serial = preset('console', { domain: { devices: { serials: [{ type: 'pty' }] } } }, 'default')

test('preserves every byte that the user wrote, including its spelling', () => {
  const vm = vmWith()
  const { spec } = completed(vm, [serial]).vm
  expect(spec.domain).toMatchObject(vm.spec.domain)
})

test('records the origin of each leaf', () => {
  const { vm } = completed(vmWith(), [serial])
  const provenance = decodeProvenance(vm.metadata.annotations?.[completedByAnnotation] ?? '')!
  const by = (path: string) => originOf(provenance.origins, path)
  expect(by('spec.domain.memory.value')).toEqual({ by: 'user' })
  expect(by('spec.domain.devices.serials[0].type')).toMatchObject({
    by: 'preset',
    namespace: 'default',
    name: 'console',
  })
  expect(by('spec.domain.devices.emulator')).toEqual({ by: 'default', rule: 'emulator' })
})

test('completing a VM again, in the same request or another one, changes nothing', () => {
  const once = completed(vmWith(), [serial]).vm
  expect(completed(once, [serial]).vm).toEqual(once)
  expect(completed(once, [serial], 'request-2').vm).toEqual(once)
})

describe('what the user wrote as an empty object or list, and completion filled,', () => {
  const bridge = { type: 'bridge', source: { bridge: 'br0' } } as const
  const isEmpty = { name: 'empty', expression: 'object.spec.domain.devices.interfaces.size() == 0' }
  const bridged = { alias: { name: '*' }, type: 'bridge', source: { bridge: 'br0' } } as const
  const isNew = { name: 'new', expression: 'object.spec.domain.devices.interfaces.all(i, !has(i.type))' }
  test.each<[string, NonNullable<VirtualMachineSpec['domain']['devices']>, Partial<PresetSpec>]>([
    [
      'fulfils the conditions of a grant as before',
      { interfaces: [{}] },
      { matchConditions: [isNew], domain: { devices: { interfaces: [bridged] } } },
    ],
    [
      'fulfils them as a list',
      { interfaces: [] },
      { matchConditions: [isEmpty], domain: { devices: { interfaces: [bridge] } } },
    ],
    [
      'fulfils them after an item that is removed',
      { interfaces: [{ model: { type: 'e1000' } }, {}] },
      {
        matchConditions: [isNew],
        strength: 'Enforce',
        domain: { devices: { vsock: { cid: { auto: true } } } },
        remove: ['domain.devices.interfaces[model.type=e1000]'],
      },
    ],
    [
      'does not become what a preset removes',
      { interfaces: [{}] },
      { strength: 'Enforce', remove: ['domain.devices.interfaces[type=user]'] },
    ],
    ['is not what a preset states', {}, { domain: { devices: {} } }],
  ])('%s when the VM is completed again', (_, devices, spec) => {
    const presets = [preset('site', spec)]
    const once = completed(vmWith({ devices }), presets).vm
    expect(once.spec.domain.devices).not.toEqual(devices)
    expect(completed(once, presets, 'request-2').vm).toEqual(once)
    expect(ungrantedReach(once, optionsOf(presets, 'request-3'))).toEqual([])
  })
})

describe('a VM whose variable store is named after it', () => {
  type Called = Pick<VirtualMachine['metadata'], 'name' | 'generateName'>
  const called = ({ metadata, spec }: VirtualMachine, names: Called): VirtualMachine => {
    const { name: _name, generateName: _prefix, ...others } = metadata
    return deepFreeze({ ...structuredClone({ metadata: { ...others, ...names }, spec }), apiVersion, kind })
  }
  const { apiVersion, kind } = vmWith()
  const efi = (names: Called) =>
    called(vmWith({ features: { acpi: {} }, os: { type: { os: 'hvm' }, firmware: 'efi' } }), names)
  const storeOf = ({ spec: { domain } }: VirtualMachine) => domain.os?.nvram?.value
  /** What other replicas and the controller make of it. */
  const again = (vm: VirtualMachine) => {
    const { vm: second } = completed(vm, [serial], 'request-2')
    const { vm: third } = completed(second, [serial], 'request-3')
    const ungranted = ungrantedReach(vm, optionsOf([serial], 'request-4'))
    return { spec: second.spec, isStable: isDeepStrictEqual(second, third), ungranted }
  }
  const unchanged = ({ spec }: VirtualMachine) => ({ spec, isStable: true, ungranted: [] })
  const generated = completed(efi({ generateName: 'gen-' }), [serial]).vm

  test.each<[string, VirtualMachine]>([
    ['before the API server has generated its name', generated],
    ['after it', called(generated, { generateName: 'gen-', name: 'gen-x7k2p' })],
    [
      'that an earlier version named after the prefix',
      called(completed(efi({ name: 'gen-' }), [serial]).vm, { generateName: 'gen-', name: 'gen-x7k2p' }),
    ],
    ['with a prefix and a name of its own', completed(efi({ generateName: 'gen-', name: 'gen-0' }), [serial]).vm],
    ['copied under another name', called(completed(efi({ name: 'vm' }), [serial]).vm, { name: 'copy' })],
    ['copied under a generated name', called(completed(efi({ name: 'vm' }), [serial]).vm, { generateName: 'copy-' })],
    ['copied with the prefix, but under another name', called(generated, { generateName: 'gen-', name: 'copy' })],
    ['copied without the prefix', called(generated, { name: 'copy' })],
  ])('%s, is completed again to the same', (_, vm) => {
    expect(again(vm)).toEqual(unchanged(vm))
  })

  test('of any names, when it is completed and afterwards, is completed again to the same', () => {
    const names = fc.constantFrom('vm', 'web-', 'web-0', 'web-x7k2p')
    const both = { name: names, generateName: names }
    const either = fc.oneof(
      ...(['name', 'generateName'] as const).map((key) => fc.record(both, { requiredKeys: [key] })),
    )
    fc.assert(
      fc.property(either, either, (before, after) => {
        const vm = called(completed(efi(before), [serial]).vm, after)
        expect(again(vm)).toEqual(unchanged(vm))
      }),
      { numRuns: 50 },
    )
  })

  test('has its own one, even if another VM has the same prefix', () => {
    const other = completed(efi({ generateName: 'gen-' }), [serial], 'request-2').vm
    expect(storeOf(generated)).toMatch(/\/gen-[0-9a-f]{12}_VARS\.qcow2$/)
    expect(storeOf(other)).not.toBe(storeOf(generated))
  })

  test('records the name as a default, also when it is completed again before the API server has generated one', () => {
    const named = called(generated, { generateName: 'gen-', name: 'gen-x7k2p' })
    for (const vm of [efi({ generateName: 'gen-' }), generated, named])
      expect(originOf(completed(vm, [serial]).origins, 'spec.domain.name')).toEqual({ by: 'default', rule: 'name' })
  })
})

test('the same request gives the same identity, and another request another', () => {
  const uuid = (uid: string) => completed(vmWith(), [], uid).vm.spec.domain.uuid
  expect(uuid('a')).toBe(uuid('a'))
  expect(uuid('a')).not.toBe(uuid('b'))
})

test('replaces a forged provenance', () => {
  const vm = vmWith()
  const forged = {
    ...vm,
    metadata: {
      ...vm.metadata,
      annotations: { [completedByAnnotation]: '{"v":1,"by":[["","operators","1"]],"at":{"spec":0}}' },
    },
  }
  expect(completed(forged).vm).toEqual(completed(vm).vm)
})

test('a forged provenance does not change the origin of a host-reaching field', () => {
  const vm = vmWith({ devices: { interfaces: [{ type: 'bridge', source: { bridge: 'br0' } }] } })
  const forged = {
    ...vm,
    metadata: {
      ...vm.metadata,
      annotations: { [completedByAnnotation]: '{"v":1,"by":[["","operators","1"]],"at":{"spec":0}}' },
    },
  }
  const outcome = run(forged)
  expect(outcome.outcome === 'refused' && outcome.causes.map(({ rule }) => rule)).toContain('host-reach')
})

test('preserves the origins when another webhook adds a disk in between', () => {
  const { vm: once } = completed(vmWith(), [serial])
  const { devices = {} } = once.spec.domain
  const disk = {
    type: 'volume',
    device: 'disk',
    source: { volume: 'data' },
    target: { dev: 'vdb', bus: 'virtio' },
  } as const
  const spec = {
    ...once.spec,
    volumes: [{ name: 'data', emptyDisk: { capacity: '1Gi' } }],
    domain: { ...once.spec.domain, devices: { ...devices, disks: [...(devices.disks ?? []), disk] } },
  }
  const twice = completed({ ...once, spec }, [serial])
  const by = (path: string) => originOf(twice.origins, path)
  expect(by('spec.domain.devices.serials[0].type')).toMatchObject({ by: 'preset', name: 'console' })
  expect(by('spec.domain.devices.emulator')).toEqual({ by: 'default', rule: 'emulator' })
  expect(by('spec.domain.uuid')).toEqual({ by: 'default', rule: 'uuid' })
  expect(by('spec.domain.devices.disks[1].target.dev')).toEqual({ by: 'user' })
  expect(by('spec.domain.devices.disks[1].driver.name')).toMatchObject({ by: 'default' })
})

test.each([
  ['enforces', {}],
  ['enforced, and another removed', { remove: ['domain.clock'], priority: 1 }],
])('preserves what the user wrote in another branch of a union than a preset %s', (_, other) => {
  const clock = { offset: 'variable', adjustment: '3600', basis: 'utc' } as const
  const presets = [
    preset('utc', { strength: 'Enforce', domain: { clock: { offset: 'utc' } } }),
    preset('other', { strength: 'Enforce', ...other }),
  ]
  const once = completed(vmWith({ clock }), presets)
  expect([...once.overridden.keys()]).toContain('spec.domain.clock.adjustment')
  expect(completed(once.vm, presets).overridden).toEqual(once.overridden)
})

test('a user cannot pass off their own values as defaults', () => {
  const { vm: once } = completed(vmWith())
  const claim = once.metadata.annotations?.[completedByAnnotation] ?? ''
  const mine = { ...once, spec: { ...once.spec, domain: { ...once.spec.domain, onCrash: 'preserve' as const } } }
  expect(claim).toContain('on-crash')
  expect(originOf(completed(mine).origins, 'spec.domain.onCrash')).toEqual({ by: 'user' })
})

test('a user may set a host-reaching field only to the value that completion would set', () => {
  const { emulator } = bundledCapabilities
  expect(run(vmWith({ devices: { emulator } })).outcome).toBe('completed')
  expect(run(vmWith({ devices: { emulator: '/tmp/evil' } })).outcome).toBe('refused')
})

test('a cluster preset grants a value, even if the user has set the same', () => {
  const bridge = preset('bridge', {
    domain: { devices: { interfaces: [{ type: 'bridge', source: { bridge: 'br0' }, alias: { name: 'ua-lan' } }] } },
  })
  expect(run(vmWith(), [bridge]).outcome).toBe('completed')
  const same = vmWith({
    devices: { interfaces: [{ type: 'bridge', source: { bridge: 'br0' }, alias: { name: 'ua-lan' } }] },
  })
  expect(run(same, [bridge]).outcome).toBe('completed')
})

test.each<[string, 'Default' | 'Enforce', number, string]>([
  ['more than a preset enforces', 'Enforce', 4, 'refused'],
  ['what a preset enforces', 'Enforce', 2, 'completed'],
  ['more than a preset states', 'Default', 4, 'completed'],
])('the NUMA nodes of a guest have %s', (_, strength, gibibytes, expected) => {
  const memory = { unit: 'GiB', value: 2 } as const
  const limit = preset('limit', { strength, domain: { memory } })
  const cells = [{ id: 0, cpus: '0', memory: gibibytes, unit: 'GiB' }]
  const outcome = run(vmWith({ memory, vcpu: { value: 1 }, cpu: { numa: { cells } } }), [limit])
  expect(outcome.outcome).toBe(expected)
})

interface MemorySize {
  readonly unit: string
  readonly value: number
}

test.each<[string, MemorySize, MemorySize]>([
  ['2 GB', { unit: 'GB', value: 2 }, { unit: 'GB', value: 1 }],
  ['4 GB', { unit: 'GB', value: 4 }, { unit: 'GB', value: 2 }],
  ['what libvirt rounds up', { unit: 'KiB', value: 2_500_000 }, { unit: 'KiB', value: 1_250_304 }],
])('two NUMA nodes with half of it have what a preset enforces: %s', (_, memory, { unit, value }) => {
  const cells = [0, 1].map((id) => ({ id, cpus: String(id), memory: value, unit }))
  const both = preset('both', { strength: 'Enforce', domain: { memory, vcpu: { value: 2 }, cpu: { numa: { cells } } } })
  expect(run(vmWith({ memory }), [both]).outcome).toBe('completed')
})

test('small NUMA nodes that libvirt rounds up to more than a preset enforces are refused', () => {
  const memory = { unit: 'MiB', value: 64 } as const
  const cells = Array.from({ length: 128 }, (_, id) => ({ id, ...(id === 0 ? { cpus: '0' } : {}), memory: 512 }))
  const limit = preset('limit', { strength: 'Enforce', domain: { memory } })
  const outcome = run(vmWith({ vcpu: { value: 1 }, cpu: { numa: { cells } } }), [limit])
  expect(outcome.outcome === 'refused' && outcome.causes.map(({ message }) => message)).toEqual([
    'must have, with the memory devices, the 65536 KiB of memory that a preset enforces; they have 131072 KiB, because each is rounded up to whole MiB',
  ])
})

test('reports a preset conflict together with an independent rule', () => {
  const one = preset('one', { domain: { vcpu: { value: 1 } } }, 'default')
  const two = preset('two', { domain: { vcpu: { value: 2 } } }, 'default')
  const outcome = run(vmWith({ devices: { emulator: '/tmp/evil' } }), [one, two])
  expect(outcome.outcome === 'refused' && outcome.causes.map(({ rule, field }) => `${rule} ${field}`)).toEqual([
    'preset-conflict spec.domain.vcpu.value',
    'host-reach spec.domain.devices.emulator',
  ])
})
