import { expect, test } from 'vitest'
import { deepFreeze } from '../api/deep-freeze.ts'
import { completedByAnnotation, type VirtualMachineSpec, type VirtualMachine } from '../api/virtual-machine.ts'
import type { Preset, PresetSpec } from '../api/preset.ts'
import { createCandidates } from '../presets/candidates.ts'
import { compileParsed } from '../presets/compile.ts'
import { bundledCapabilities } from './capabilities.ts'
import { complete, type Completed } from './complete.ts'
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

const run = (vm: VirtualMachine, presets: readonly Preset[] = [], uid = 'request-1') =>
  complete(vm, {
    presets: createCandidates(presets.map(compileParsed)),
    namespace: { name: 'default', labels: {} },
    capabilities: bundledCapabilities,
    entropy: { uid },
  })

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

test('reports a preset conflict together with an independent rule', () => {
  const one = preset('one', { domain: { vcpu: { value: 1 } } }, 'default')
  const two = preset('two', { domain: { vcpu: { value: 2 } } }, 'default')
  const outcome = run(vmWith({ devices: { emulator: '/tmp/evil' } }), [one, two])
  expect(outcome.outcome === 'refused' && outcome.causes.map(({ rule, field }) => `${rule} ${field}`)).toEqual([
    'preset-conflict spec.domain.vcpu.value',
    'host-reach spec.domain.devices.emulator',
  ])
})
