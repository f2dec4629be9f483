import { describe, expect, test } from 'vitest'
import type { LabelRequirement } from '../api/object.ts'
import { unmetered } from '../api/steps.ts'
import { clusterPreset, preset, team, vmWith } from '../test/presets/make.ts'
import { clusterGadgetPreset, gadget, gadgetPreset, gadgets } from '../test/presets/objects.ts'
import { smallStructure } from '../test/presets/small-domain.ts'
import { createCandidates } from './candidates.ts'
import type { CompiledPreset } from './compile.ts'
import { digestOf } from './digest.ts'
import { injectInto } from './inject.ts'
import { virtualMachineKind } from './kind.ts'
import { settle, settledWithoutCluster } from './settle.ts'
import { filledIn, originLabel } from './source.ts'

type Given = { readonly [key: string]: unknown }

describe('the items of the user that a list lost', () => {
  const kind = virtualMachineKind(smallStructure)
  const disk = (dev: string, more: Given = {}) => ({ type: 'file', target: { dev }, ...more })
  const volume = { name: 'v', emptyDisk: { capacity: '1Mi' } }
  const onVolume = (dev: string, name: string) => ({ type: 'volume', source: { volume: name }, target: { dev } })
  const removing = (...paths: string[]) =>
    preset('p', { strength: 'Enforce', remove: paths.map((path) => `domain.${path}`) })
  const adding = (dev: string) => preset('q', { domain: { devices: { disks: [disk(dev)] } } })
  const changing = preset('r', {
    strength: 'Enforce',
    domain: { devices: { disks: [onVolume('vda', 'w')] } },
    volumes: [{ ...volume, name: 'w' }],
  })
  const [a, b, c] = [disk('vda'), disk('vdb'), disk('vdc')]
  const disksPath = 'spec.domain.devices.disks'

  test.each<[string, readonly object[], readonly CompiledPreset[], { readonly [path: string]: readonly number[] }]>([
    ['none', [a, b], [removing('devices.disks[2]'), adding('vdc')], {}],
    ['the first', [a, b, c], [removing('devices.disks[0]')], { [disksPath]: [0] }],
    [
      'two, with items of presets',
      [a, b, c],
      [removing('devices.disks[0]', 'devices.disks[target.dev=vdc]'), adding('vdd')],
      { [disksPath]: [0, 2] },
    ],
    ['all', [a, b], [removing('devices.disks')], { [disksPath]: [0, 1] }],
    ['one that lost its key', [a, b], [removing('devices.disks[1].target.dev')], { [disksPath]: [1] }],
    [
      'a volume that went with its disk',
      [onVolume('vda', 'v')],
      [removing('devices.disks[0]')],
      { [disksPath]: [0], 'spec.volumes': [0] },
    ],
    ['a volume whose disk has another one', [onVolume('vda', 'v')], [changing], { 'spec.volumes': [0] }],
  ])('%s', (_, disks, presets, expected) => {
    const volumes = [volume]
    const { shortened } = settle(vmWith({ devices: { disks } }, { spec: { volumes } }), presets, kind)
    expect(Object.fromEntries(shortened)).toEqual(
      Object.fromEntries(
        Object.entries(expected).map(([path, missing]) => [
          path,
          { user: path === disksPath ? disks : volumes, missing },
        ]),
      ),
    )
  })

  test('are recorded as digests', () => {
    const { shortened } = injectInto(vmWith({ devices: { disks: [a, b] } }), kind, {
      presets: createCandidates([removing('devices.disks[1]')]),
      namespace: team,
    })
    expect(shortened).toEqual(new Map([[disksPath, { length: 2, missing: new Map([[1, digestOf(b)]]) }]]))
  })
})

describe('without what cluster presets state', () => {
  const kind = virtualMachineKind(smallStructure)
  const disk = (dev: string, more: Given = {}) => ({ type: 'file', target: { dev }, ...more })
  const disks = (...some: readonly object[]) => ({ devices: { disks: some } })
  const cluster = (domain: Given, spec: Given = {}) => clusterPreset('c', { domain, ...spec })
  const enforced = (domain: Given, spec: Given = {}) => cluster(domain, { strength: 'Enforce', ...spec })
  const own = (domain: Given, spec: Given = {}) => preset('p', { domain, ...spec })

  test.each<[string, Given, readonly CompiledPreset[], Given | undefined]>([
    ["a user's value remains", { title: 'u' }, [cluster({ words: ['c'] })], { title: 'u' }],
    ['a value of the cluster alone is not there', { title: 'u' }, [cluster({ vcpu: { value: 2 } })], { title: 'u' }],
    ['nor is an item of a list', disks(disk('vda')), [cluster(disks(disk('vdb')))], disks(disk('vda'))],
    ['nor is a list of the cluster alone', { title: 'u' }, [cluster(disks(disk('vdb')))], { title: 'u' }],
    ["a user's empty object remains", { features: {} }, [cluster({ features: { acpi: {} } })], { features: {} }],
    ["a user's empty list remains", { words: [] }, [cluster({ words: ['c'] })], { words: [] }],
    ['a value of the namespace remains', {}, [own({ title: 'p' }), cluster({ vcpu: { value: 2 } })], { title: 'p' }],
    [
      'an item of the namespace remains',
      disks(disk('vda')),
      [own(disks(disk('vdb'))), cluster(disks(disk('vdc')))],
      disks(disk('vda'), disk('vdb')),
    ],
    ['a list of the namespace remains', {}, [own(disks(disk('vdb'))), cluster(disks(disk('vdc')))], disks(disk('vdb'))],
    [
      'a value that the cluster adds to an item of the user is not there',
      disks(disk('vda')),
      [cluster(disks({ target: { dev: 'vda' }, serial: 'c' }))],
      disks(disk('vda')),
    ],
    [
      'a value of the namespace that the cluster states too remains',
      {},
      [own({ title: 'a' }), enforced({ title: 'a' })],
      { title: 'a' },
    ],
    [
      'a value of the namespace that the cluster overrides is there again',
      {},
      [own({ title: 'p' }), enforced({ title: 'c' })],
      { title: 'p' },
    ],
    [
      "a user's value that the cluster overrides is there again",
      { title: 'u' },
      [enforced({ title: 'c' })],
      { title: 'u' },
    ],
    [
      'of two overridden values, the stronger is there',
      { title: 'u' },
      [own({ title: 'p' }), enforced({ title: 'c' })],
      { title: 'u' },
    ],
    [
      'of two overridden values, the one that is enforced is there',
      { title: 'u' },
      [own({ title: 'p' }, { strength: 'Enforce' }), enforced({ title: 'c' })],
      { title: 'p' },
    ],
    [
      "a user's value that cluster presets of other strength lose to remains",
      { title: 'u' },
      [cluster({ title: 'c' })],
      { title: 'u' },
    ],
    [
      'a removal by the namespace applies',
      { title: 'u', vcpu: { value: 2 } },
      [own({}, { strength: 'Enforce', remove: ['domain.vcpu'] }), cluster({ words: ['c'] })],
      { title: 'u' },
    ],
    [
      'a removal by the cluster does not apply',
      { title: 'u', vcpu: { value: 2 } },
      [enforced({}, { remove: ['domain.vcpu'] })],
      { title: 'u', vcpu: { value: 2 } },
    ],
  ])('%s', (_, user, presets, domain) => {
    const settled = settledWithoutCluster(vmWith(user), presets, kind, unmetered)
    expect(settled).toEqual({ ...vmWith(user), spec: { domain } })
  })
})

describe('values that were filled in', () => {
  const read = gadgets.get('Gadget of example.com/v1')?.()
  if (read === undefined || !('kind' in read)) throw new Error('the definition has no kind')
  const { kind } = read
  const written = gadget({ size: 1 })
  const received = gadget({ size: 1, mode: 'Safe', place: { zone: 'a' } })

  test.each<[string, readonly CompiledPreset[], Given, readonly string[]]>([
    ['remain without presets', [], { size: 1, mode: 'Safe', place: { zone: 'a' } }, []],
    [
      'lose to a default',
      [gadgetPreset('p', { mode: 'Fast' })],
      { size: 1, mode: 'Fast', place: { zone: 'a' } },
      ['spec.mode'],
    ],
    [
      'lose to a default of the lowest priority of the cluster',
      [clusterGadgetPreset('c', { mode: 'Fast' }, { priority: -(2 ** 31) })],
      { size: 1, mode: 'Fast', place: { zone: 'a' } },
      ['spec.mode'],
    ],
    [
      'remain where no preset states another',
      [gadgetPreset('p', { port: 80 })],
      { size: 1, port: 80, mode: 'Safe', place: { zone: 'a' } },
      ['spec.port'],
    ],
  ])('%s', (_, presets, spec, changed) => {
    const settled = settle(written, presets, { ...kind, below: received })
    expect(settled.object).toEqual(gadget(spec))
    const byPresets = [...settled.origins].filter(([, origin]) => origin !== filledIn)
    expect(byPresets.map(([path]) => path)).toEqual(changed)
  })
})

describe('items with one key, of which', () => {
  const read = gadgets.get('Gadget of example.com/v1')?.()
  if (read === undefined || !('kind' in read)) throw new Error('the definition has no kind')
  const { kind } = read
  const parts = [{ name: 'a', weight: 1 }, { name: 'a', weight: 2 }, { name: 'a', options: { x: 'y' } }, { name: 'b' }]
  const settled = (written: Given, ...presets: CompiledPreset[]) =>
    settle(gadget(written), presets, { ...kind, below: gadget({ parts }) }).object

  test.each<[string, Given]>([
    ['the user wrote none', {}],
    ['the user wrote all', { parts }],
    ['the user wrote parts', { parts: [{ name: 'a' }, { name: 'a', weight: 2 }, { name: 'a' }, { name: 'b' }] }],
  ])('%s, remain as they are, and are completed each for itself', (_, written) => {
    expect(settled(written, gadgetPreset('p', { size: 1 }))).toEqual(gadget({ parts, size: 1 }))
    const [one, two, ...others] = parts
    const tagged = { ...one, tags: ['t'] }
    expect(settled(written, gadgetPreset('p', { parts: [{ name: 'a', tags: ['t'] }] }))).toEqual(
      gadget({ parts: [tagged, two, ...others] }),
    )
    expect(settled(written, gadgetPreset('p', { parts: [{ name: 'a', weight: 9 }] }, { strength: 'Enforce' }))).toEqual(
      gadget({
        parts: [
          { name: 'a', weight: 9 },
          { name: 'a', weight: 9 },
          { name: 'a', weight: 9, options: { x: 'y' } },
          { name: 'b' },
        ],
      }),
    )
  })
})

test('a null that was filled in remains where no preset states anything', () => {
  const read = gadgets.get('Gadget of example.com/v1')?.()
  if (read === undefined || !('kind' in read)) throw new Error('the definition has no kind')
  const kind = { ...read.kind, below: gadget({ options: null, parts: null }) }
  expect(settle(gadget({}), [gadgetPreset('p', { parts: [{ name: 'a' }] })], kind).object).toEqual(
    gadget({ parts: [{ name: 'a' }], options: null }),
  )
})

describe('an object of which only a part was written by its user', () => {
  const read = gadgets.get('Gadget of example.com/v1')?.()
  if (read === undefined || !('kind' in read)) throw new Error('the definition has no kind')
  const { kind } = read
  const received = gadget({ size: 1, mode: 'Safe' })
  const written = gadget({ size: 1 })
  const when = (expression: string) => ({ matchConditions: [{ name: 'c', expression }] })
  const inject = (...presets: CompiledPreset[]) => {
    const candidates = createCandidates(presets)
    return injectInto(received, kind, { presets: candidates, namespace: team, written })
  }

  test('is completed by defaults; what was filled in has no origin', () => {
    const { object, origins } = inject(gadgetPreset('p', { mode: 'Fast' }))
    expect(object).toEqual(gadget({ size: 1, mode: 'Fast' }))
    expect([...origins.keys()]).toEqual(['spec.mode'])
    expect([...inject(gadgetPreset('p', { port: 80 })).origins.keys()]).toEqual(['spec.port'])
  })

  test('is seen whole by conditions', () => {
    const safe = gadgetPreset('p', { port: 80 }, when("object.spec.mode == 'Safe'"))
    const fast = gadgetPreset('p', { port: 80 }, when("object.spec.mode == 'Fast'"))
    expect([safe, fast].map((one) => inject(one).participants.length)).toEqual([1, 0])
  })

  test('is seen by conditions of cluster presets with the presets of its namespace', () => {
    const enforced = { strength: 'Enforce', ...when("object.spec.mode == 'Fast' && object.spec.size == 1") } as const
    const late = clusterGadgetPreset('c', { port: 80 }, enforced)
    expect(inject(late, gadgetPreset('p', { mode: 'Fast' })).object).toEqual(
      gadget({ size: 1, mode: 'Fast', port: 80 }),
    )
    expect(inject(late).object).toEqual(received)
  })

  test('is seen by selectors of cluster presets with the labels of its namespace', () => {
    const selector = { matchLabels: { late: 'yes' } }
    const late = clusterGadgetPreset('c', { port: 80 }, { strength: 'Enforce', selector })
    const labelling = gadgetPreset('p', undefined, { metadata: { labels: { late: 'yes' } } })
    expect(inject(late, labelling).participants.map(({ preset: { id } }) => id)).toEqual(['team/p', 'c'])
  })

  test.each<[string, string, LabelRequirement]>([
    ['DoesNotExist', 'metadata.labels[vetted]', { key: 'vetted', operator: 'DoesNotExist' }],
    ['NotIn', 'metadata.labels.vetted', { key: 'vetted', operator: 'NotIn', values: ['yes'] }],
  ])('is seen by selectors of cluster presets (%s) without the labels that its namespace removes (%s)', (...given) => {
    const [, path, expression] = given
    const vetted = { ...received, metadata: { ...received.metadata, labels: { vetted: 'yes' } } }
    const late = clusterGadgetPreset(
      'c',
      { port: 80 },
      { strength: 'Enforce', selector: { matchExpressions: [expression] } },
    )
    const removing = gadgetPreset('p', undefined, { strength: 'Enforce', remove: [path] })
    const injectedBy = (...presets: CompiledPreset[]) =>
      injectInto(vetted, kind, { presets: createCandidates(presets), namespace: team })
    const ids = ({ participants }: ReturnType<typeof injectedBy>) => participants.map(({ preset: { id } }) => id)
    expect([ids(injectedBy(late)), ids(injectedBy(late, removing))]).toEqual([[], ['team/p', 'c']])
  })
})

test('only leaves that cluster presets state are granted', () => {
  const { granted } = settle(
    vmWith({ type: 'qemu' }),
    [preset('p', { domain: { title: 'p' } }), clusterPreset('c', { domain: { words: ['c'], type: 'kvm' } })],
    virtualMachineKind(smallStructure),
  )
  expect([...granted.stated.keys()]).toEqual(['spec.domain.words[0]'])
  expect([...granted.overruled.keys()]).toEqual(['spec.domain.type'])
})

test('of a lost branch of a union, the choice of presets and all fields of the user are recorded', () => {
  const disk = (source: Given) => ({ domain: { devices: { disks: [{ target: { dev: 'vda' }, ...source }] } } })
  const user = vmWith({ devices: { disks: [{ type: 'file', target: { dev: 'vda' }, source: { file: '/u' } }] } })
  const { overridden } = settle(
    user,
    [
      preset('p', { strength: 'Enforce', ...disk({ type: 'file', source: { file: '/p' } }) }),
      clusterPreset('c', { strength: 'Enforce', ...disk({ type: 'network', source: { name: 'n' } }) }),
    ],
    virtualMachineKind(smallStructure),
  )
  const lost = [...overridden].map(([path, values]) => [path, ...values.map(({ origin }) => originLabel(origin))])
  expect(lost).toEqual([
    ['spec.domain.devices.disks[0].type', 'team/p', 'user'],
    ['spec.domain.devices.disks[0].source', 'user'],
  ])
})

describe('volumes', () => {
  const uses = (volume: string) => ({ type: 'volume', source: { volume }, target: { dev: 'vda' } })
  const file = { type: 'file', source: { file: '/x' }, target: { dev: 'vda' } }
  const disks = (disk: object) => ({ domain: { devices: { disks: [disk] } } })
  const volumes = [{ name: 'v', emptyDisk: { capacity: '1Gi' } }]
  const user = vmWith({ devices: { disks: [uses('v')] } }, { spec: { volumes } })
  const pairing = virtualMachineKind(smallStructure)
  const plain = { ...pairing, pairsVolumes: false }

  test.each<[string, CompiledPreset, typeof pairing, Given, readonly string[]]>([
    [
      'are removed with the last disk that used them',
      preset('p', { strength: 'Enforce', ...disks(file) }),
      pairing,
      disks(file),
      ['volume "v" is removed because no disk uses it any more'],
    ],
    [
      'remain for a kind whose volumes belong to no disk',
      preset('p', { strength: 'Enforce', ...disks(file) }),
      plain,
      { ...disks(file), volumes },
      [],
    ],
    [
      'are removed without a warning for such a kind',
      preset('p', { strength: 'Enforce', remove: ['volumes'] }),
      plain,
      disks(uses('v')),
      [],
    ],
    [
      'do not matter to the disks of such a kind',
      preset('p', { strength: 'Enforce', ...disks(uses('missing')) }),
      plain,
      { ...disks(uses('missing')), volumes },
      [],
    ],
    [
      'remain while a disk that no preset changes uses them',
      preset('p', { volumes: [{ name: 'w', emptyDisk: { capacity: '2Gi' } }] }),
      pairing,
      { ...disks(uses('v')), volumes: [...volumes, { name: 'w', emptyDisk: { capacity: '2Gi' } }] },
      [],
    ],
  ])('%s', (_, one, kind, spec, warnings) => {
    const settled = settle(user, [one], kind)
    expect(settled.object).toEqual({ ...user, spec })
    expect(settled.warnings).toEqual(warnings)
  })
})
