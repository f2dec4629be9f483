import { expect, test } from 'vitest'
import type { Preset, PresetSpec } from '../api/preset.ts'
import { completedByAnnotation, type VirtualMachine } from '../api/virtual-machine.ts'
import { createCandidates } from '../presets/candidates.ts'
import { compilePreset } from '../presets/compile.ts'
import { bundledCapabilities as capabilities } from './capabilities.ts'
import { complete, type Completed } from './complete.ts'
import { decodeProvenance } from './provenance.ts'

const apiVersion = 'virtset.io/v1alpha1'

const preset = (name: string, spec: Partial<PresetSpec>, namespace?: string): Preset => ({
  apiVersion,
  kind: namespace === undefined ? 'ClusterVirtualMachinePreset' : 'VirtualMachinePreset',
  metadata: { name, ...(namespace === undefined ? {} : { namespace }) },
  spec: { selector: {}, strength: 'Enforce', ...spec },
})

const vmWith = (metadata: object = {}, title?: string): VirtualMachine => ({
  apiVersion,
  kind: 'VirtualMachine',
  metadata: { name: 'vm', namespace: 'team', ...metadata },
  spec: {
    domain: {
      type: 'qemu',
      memory: { unit: 'MiB', value: 64 },
      os: { type: { os: 'hvm' } },
      ...(title === undefined ? {} : { title }),
    },
  },
})

function outcomeOf(vm: VirtualMachine, presets: readonly Preset[]): Completed {
  const compiled = presets.map((one) => {
    const outcome = compilePreset(one)
    if ('quarantined' in outcome) throw new Error(JSON.stringify(outcome.quarantined.causes))
    return outcome.preset
  })
  const outcome = complete(vm, {
    presets: createCandidates(compiled),
    namespace: { name: 'team', labels: {} },
    capabilities,
    entropy: { uid: 'request' },
  })
  if (outcome.outcome === 'refused') throw new Error(JSON.stringify(outcome.causes))
  return outcome
}

const completed = (vm: VirtualMachine, presets: readonly Preset[]): VirtualMachine => outcomeOf(vm, presets).vm

const provenanceOf = ({ metadata }: VirtualMachine) =>
  decodeProvenance(metadata.annotations?.[completedByAnnotation] ?? '')

/** Lines of path and preset. */
const enforcedIn = (vm: VirtualMachine): string[] =>
  [...(provenanceOf(vm)?.enforced ?? [])]
    .map(([path, origin]) => `${path} ${origin.by === 'preset' ? origin.name : ''}`)
    .toSorted()

const site = preset('site', { metadata: { labels: { tier: 'gold' }, annotations: { 'a.b/c': 'x' } } })
const ofSite = ['metadata.annotations[a.b/c] site', 'metadata.labels.tier site']

test.each<[string, object, readonly Preset[], readonly string[]]>([
  ['set by the preset', {}, [site], ofSite],
  ['that the user wrote as well', { labels: { tier: 'gold' } }, [site], ofSite],
  ['overridden by the preset', { labels: { tier: 'free' } }, [site], ofSite],
  ['of strength Default', {}, [preset('soft', { strength: 'Default', metadata: { labels: { tier: 'gold' } } })], []],
  [
    'of a stronger preset',
    {},
    [preset('own', { metadata: { labels: { tier: 'free', app: 'a' } } }, 'team'), site],
    [ofSite[0] ?? '', 'metadata.labels.app own', ofSite[1] ?? ''],
  ],
])('records enforced labels and annotations: %s', (_, metadata, presets, expected) => {
  const vm = completed(vmWith(metadata), presets)
  expect(enforcedIn(vm)).toEqual(expected)
  expect(enforcedIn(completed(vm, presets))).toEqual(expected)
})

const alias = { name: 'ua-seed' }
const byAlias: Partial<PresetSpec> = {
  domain: { devices: { disks: [{ alias, type: 'volume', source: { volume: 'agent' } }] } },
}
const inDrive = (source: object | undefined) => ({
  type: 'volume' as const,
  device: 'cdrom' as const,
  driver: { name: 'qemu', type: 'raw' as const },
  alias,
  ...(source === undefined ? {} : { source }),
  target: { dev: 'sda', bus: 'sata' as const },
})
const seed = (name: string) => ({ name, cloudInit: { userData: '#cloud-config' } })
const agent = { volumes: [seed('agent')], domain: { devices: { disks: [inDrive({ volume: 'agent' })] } } }
const medium = 'spec.domain.devices.disks[0].source.volume'

test.each<[string, object | undefined, Partial<PresetSpec>, readonly string[]]>([
  ['set by the preset', undefined, agent, [`${medium} site`]],
  ['that the user wrote as well', { volume: 'agent' }, agent, [`${medium} site`]],
  ['overridden by the preset', { volume: 'mine' }, agent, [`${medium} site`]],
  ['of strength Default', undefined, { ...agent, strength: 'Default' }, []],
  [
    'with its source',
    { volume: 'mine' },
    { remove: ['domain.devices.disks[target.dev=sda].source'] },
    [`${medium} site`],
  ],
  ['removed', { volume: 'mine' }, { remove: ['domain.devices.disks[0].source.volume'] }, [`${medium} site`]],
  ['removed, if there was none', {}, { remove: ['domain.devices.disks[0].source.volume'] }, [`${medium} site`]],
  [
    'removed because of its name',
    { volume: 'mine' },
    { remove: ['domain.devices.disks[source.volume=mine].source'] },
    [`${medium} site`],
  ],
  ['removed because of another name', {}, { remove: ['domain.devices.disks[source.volume=other].source'] }, []],
  [
    'that its drive could get later, and would not have kept',
    { volume: 'mine' },
    { remove: ['domain.devices.disks[source.volume=agent].source.volume'] },
    [`${medium} site`],
  ],
  [
    'with which its drive would have been removed',
    { volume: 'mine' },
    { remove: ['domain.devices.disks[source.volume=agent]'] },
    [`${medium} site`],
  ],
  [
    'removed because of its name in quotes',
    { volume: 'mine' },
    { remove: ['domain.devices.disks[source.volume="mine"].source'] },
    [`${medium} site`],
  ],
  [
    'that its drive could get later, by a name in quotes',
    { volume: 'mine' },
    { remove: ['domain.devices.disks[source.volume="agent"]'] },
    [`${medium} site`],
  ],
  [
    'of a volume of which another part is removed',
    { volume: 'mine' },
    { remove: ['domain.devices.disks[source.volume=agent].serial'] },
    [],
  ],
  ['set by the alias of its drive', { volume: 'mine' }, byAlias, [`${medium} site`]],
  ['removed from another drive', {}, { remove: ['domain.devices.disks[target.dev=sdb].source'] }, []],
])('records enforced media: %s', (_, source, spec, expected) => {
  const sent = vmWith()
  const mine: VirtualMachine = {
    ...sent,
    spec: {
      domain: { ...sent.spec.domain, devices: { disks: [inDrive(source)] } },
      volumes: [seed('mine'), ...('volumes' in spec ? [] : [seed('agent')])],
    },
  }
  const vm = completed(mine, [preset('site', spec)])
  expect(enforcedIn(vm)).toEqual(expected)
  expect(enforcedIn(completed(vm, [preset('site', spec)]))).toEqual(expected)
})

test('records that all media are enforced if many are, and labels all the same', () => {
  const sent = vmWith()
  const controllers = [{ type: 'scsi' as const, index: 0, model: 'virtio-scsi' as const }]
  const disks = Array.from({ length: 40 }, (_, index) => ({
    ...inDrive({}),
    alias: { name: `ua-${index}` },
    target: { dev: `sd${'abcdefghij'[Math.floor(index / 10)]}${'abcdefghij'[index % 10]}`, bus: 'scsi' as const },
  }))
  const many: VirtualMachine = {
    ...sent,
    spec: { domain: { ...sent.spec.domain, devices: { controllers, disks } }, volumes: [seed('mine')] },
  }
  const removes = preset('removes', { remove: ['domain.devices.disks[device=cdrom].source'] })
  expect(enforcedIn(completed(many, [removes, site]))).toEqual([...ofSite, 'spec.domain.devices.disks removes'])
})

test('records those of the cluster first if a namespace enforces too many', () => {
  const labels = Object.fromEntries(Array.from({ length: 250 }, (_, index) => [`${'a'.repeat(50)}${index}`, 'x']))
  const vm = completed(vmWith(), [preset('many', { metadata: { labels } }, 'team'), site])
  expect(enforcedIn(vm).length).toBeLessThan(250)
  expect(enforcedIn(vm)).toEqual(expect.arrayContaining(ofSite))
})

test('warns about enforced labels that it could not record', () => {
  const labels = Object.fromEntries(Array.from({ length: 250 }, (_, index) => [`${'a'.repeat(50)}${index}`, 'x']))
  const warningsOf = (presets: readonly Preset[]) =>
    outcomeOf(vmWith(), presets).warnings.filter((one) => /Enforce/.test(one))
  expect(warningsOf([preset('many', { metadata: { labels } }, 'team')])).toEqual([
    expect.stringMatching(/^metadata\.labels\.a+\d+ and \d+ more: can be changed later although/),
  ])
  expect(warningsOf([site])).toEqual([])
})

test('presets with long names do not displace those of the cluster', () => {
  const many = Array.from({ length: 120 }, (_, index) =>
    preset(`${'a'.repeat(240)}${index}`, { metadata: { labels: { [`k${index}`]: 'x' } } }, 'team'),
  )
  expect(enforcedIn(completed(vmWith(), [...many, site]))).toEqual(expect.arrayContaining(ofSite))
})

const overlong = 'long '.repeat(40)
const claiming = (claim: object, title?: string) =>
  vmWith({ annotations: { [completedByAnnotation]: JSON.stringify({ v: 1, ...claim }) } }, title)

test('forged claims name no preset for what it does not do', () => {
  const origin = provenanceOf(completed(vmWith(), [site]))?.enforced.get('metadata.labels.tier')
  if (origin?.by !== 'preset') throw new Error('the label has no preset')
  const forged = claiming(
    {
      by: [['', 'site', origin.revision], ['team', 'other', 'r'], 'user'],
      at: { spec: { domain: { title: 0 } } },
      over: { metadata: { labels: { tier: [2, 1] } }, spec: { domain: { title: [2, 1], memory: { value: [2, 0] } } } },
      gone: { spec: { domain: { vcpu: 0 } } },
      lock: { metadata: { labels: { app: 0 } } },
      skip: [[0, 'spec.domain.title', 'no-such-item']],
    },
    'mine',
  )
  const vm = completed(forged, [site])
  const found = provenanceOf(vm)
  expect(found?.origins.get('spec.domain.title')).toBeUndefined()
  expect([...(found?.overridden ?? [])]).toEqual([
    ['metadata.labels.tier', [{ origin: { by: 'user' }, value: undefined }]],
  ])
  expect([...(found?.removed ?? [])]).toEqual([])
  expect(found?.skipped).toEqual([])
  expect(enforcedIn(vm)).toEqual(ofSite)
})

test.each<['Default' | 'Enforce', number]>([
  ['Default', 0],
  ['Enforce', 1],
])('of a preset with strength %s, %d claims of an overridden value are shown', (strength, count) => {
  const sets = preset('sets', { strength, domain: { title: overlong } })
  const claim = { by: [['', 'sets', 'r'], 'user'], over: { spec: { domain: { title: [1, 0] } } } }
  expect(provenanceOf(completed(claiming(claim), [sets]))?.overridden.size).toBe(count)
})

test('what a preset removed is shown again', () => {
  const removes = preset('removes', { remove: ['domain.title'] })
  const vm = completed(vmWith({}, 'mine'), [removes])
  expect([...(provenanceOf(completed(vm, [removes]))?.removed.keys() ?? [])]).toEqual(['spec.domain.title'])
})
