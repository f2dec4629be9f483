import { describe, expect, test } from 'vitest'
import { attribute, child, children, content, element, foreign, leaf, leaves } from '../api/domain/description.ts'
import { integer, oneOf, unit, yesNo } from '../api/domain/scalar.ts'
import { line } from '../api/domain/text.ts'
import { rootPath } from '../api/path.ts'
import { list, map, open, quantity, string, union } from '../api/schema.ts'
import { specFields } from '../api/virtual-machine.ts'
import { smallDomain } from '../test/presets/small-domain.ts'
import { emptyMerge, mergeSources } from './merge.ts'
import { byUser, rankOf, userRank } from './source.ts'
import { structureAt, templateStructure, valueAt, virtualMachineStructure } from './structure.ts'
import { emit } from './tree.ts'

const shared = { name: string('The name.') }
const kinds = {
  ...Object.fromEntries(Object.entries(specFields.volumes.items?.properties ?? {}).filter(([key]) => key !== 'name')),
  registryDisk: open('An image.', { image: string('Its name.'), size: quantity('Its size.') }),
}

/** The schema of a VM's spec with one more kind of volume, and three more fields. */
const structure = () =>
  templateStructure(smallDomain, {
    ...specFields,
    volumes: list('Volumes.', union('A volume.', shared, kinds), {
      'x-kubernetes-list-type': 'map',
      'x-kubernetes-list-map-keys': ['name'],
    }),
    hosts: list('Hosts.', string('A host.'), { 'x-kubernetes-list-type': 'atomic' }),
    limits: map('Limits.', quantity('A limit.')),
    schedule: { ...open('When it runs.', { day: string('The day.') }), 'x-kubernetes-map-type': 'atomic' },
  })

function merged(user: object, preset: object): unknown {
  const merge = emptyMerge()
  const node = mergeSources(
    structure(),
    [
      { rank: userRank, origin: byUser, value: { spec: user } },
      {
        rank: rankOf('cluster Default', 0),
        origin: { by: 'preset', name: 'p', revision: '1' },
        value: { spec: preset },
      },
    ],
    rootPath,
    merge,
  )
  const { value } = node === undefined ? { value: undefined } : emit(node, rootPath)
  return Object(value).spec
}

const image = { image: 'a', size: '1Gi' }

describe('fields that only a schema describes are merged according to it', () => {
  test.each<[string, object, object, object]>([
    [
      'a volume of a new kind',
      {},
      { volumes: [{ name: 'v', registryDisk: image }] },
      { volumes: [{ name: 'v', registryDisk: image }] },
    ],
    [
      'a field of a new kind, into the volume with that name',
      { volumes: [{ name: 'v', registryDisk: { image: 'a' } }] },
      { volumes: [{ name: 'v', registryDisk: { size: '1Gi' } }] },
      { volumes: [{ name: 'v', registryDisk: image }] },
    ],
    [
      'the stronger of two kinds',
      { volumes: [{ name: 'v', cloudInit: {} }] },
      { volumes: [{ name: 'v', registryDisk: image }] },
      { volumes: [{ name: 'v', cloudInit: {} }] },
    ],
    ['a list that is one value', { hosts: ['a'] }, { hosts: ['b'] }, { hosts: ['a'] }],
    ['a map, key by key', { limits: { a: '1' } }, { limits: { a: '2', b: '3' } }, { limits: { a: '1', b: '3' } }],
    ['an object that is one value', { schedule: {} }, { schedule: { day: 'Monday' } }, { schedule: {} }],
  ])('%s', (_, user, preset, expected) => expect(merged(user, preset)).toEqual(expected))
})

test('quantities that a schema describes are equal in any spelling', () => {
  const spec = structure().field('spec')
  const limits = spec?.kind === 'object' ? spec.field('limits') : undefined
  const limit = limits?.kind === 'object' ? limits.field('memory') : undefined
  if (limit?.kind !== 'leaf') throw new Error('a limit is one value')
  expect(limit.meaning('1Gi')).toBe(limit.meaning('1024Mi'))
})

/** Made again for each test, because the structure of an element is made once. */
const fresh = () => {
  const size = element(
    'A size.',
    { unit: attribute(unit, 'Unit.'), value: content(integer(), 'Amount.') },
    { whole: true, scale: { value: 'value', unit: 'unit', absent: 'KiB', to: 'KiB' } },
  )
  const disk = element(
    'A disk.',
    {
      type: attribute(oneOf('file', 'network'), 'Type.'),
      isNew: attribute(yesNo, 'New.'),
      hosts: children('host', element('A host.', { port: attribute(integer(), 'Port.') }), 'Hosts.', {
        single: 'host',
      }),
      dev: leaf(line(), 'Device.'),
    },
    { union: { by: 'type', owns: ['hosts', 'host'], branches: { network: ['hosts'] } } },
  )
  const whole = element('A timer.', { tick: attribute(integer(), 'Tick.') })
  return templateStructure(
    element('A domain.', {
      value: content(integer(), 'Text.'),
      size: child(size, 'Size.'),
      disks: children('disk', disk, 'Disks.', { key: [['dev'], ['target.dev']], maxItems: 4 }),
      timers: children('timer', whole, 'Timers.', { whole: true }),
      boots: leaves('boot', integer(), 'Boots.', { whole: true }),
      words: leaves('word', integer(), 'Words.', { maxItems: 3 }),
      features: child(element('F.', { on: attribute(yesNo, 'On.') }, { union: { by: 'on', owns: [] } }), 'Features.'),
      metadata: foreign('Other.'),
    }),
    specFields,
  )
}

const fieldAt = (...path: string[]) => structureAt(fresh(), ['spec', 'domain', ...path])
const objectAt = (...path: string[]) => {
  const found = fieldAt(...path)
  return found?.kind === 'object' ? found : undefined
}
const itemOf = (key: string) => {
  const list = fieldAt(key)
  return list?.kind === 'list' && list.item.kind === 'object' ? list.item : undefined
}

describe('the structure of an element', () => {
  test('its fields, in the order of the description, and short keys after them', () => {
    const disk = itemOf('disks')
    expect(disk?.keys()).toEqual(['type', 'isNew', 'hosts', 'dev', 'host'])
    expect(['isNew', 'dev', 'host', 'none'].map((key) => disk?.place(key))).toEqual([1, 3, 4, 4])
    expect([...(disk?.singles ?? [])]).toEqual([['host', 'hosts']])
    expect([disk?.field('none'), disk?.field('toString')]).toEqual([undefined, undefined])
    expect(['type', 'isNew', 'dev'].map((key) => disk?.field(key)?.kind)).toEqual(['leaf', 'leaf', 'leaf'])
  })

  test('a field is made once', () => {
    const disk = itemOf('disks')
    expect(disk?.field('dev')).toBe(disk?.field('dev'))
  })

  test('the short key of a list leads to its item', () => {
    expect(itemOf('disks')?.field('host')?.kind).toBe('object')
    expect(itemOf('disks')?.field('hosts')).toMatchObject({ kind: 'list', keys: [] })
  })

  test('lists with their keys and lengths', () => {
    expect(fieldAt('disks')).toMatchObject({ kind: 'list', maxItems: 4, keys: [[['dev']], [['target', 'dev']]] })
    expect(fieldAt('words')).toMatchObject({ kind: 'list', maxItems: 3, keys: [] })
  })

  test.each<[string, unknown, unknown, boolean]>([
    ['size', { unit: 'KiB', value: 1024 }, { unit: 'MiB', value: 1 }, true],
    ['size', { value: 1 }, { value: 2 }, false],
    ['timers', [{ tick: 1 }], [{ tick: '1' }], true],
    ['timers', [{ tick: 1 }, { tick: 2 }], [{ tick: 2 }, { tick: 1 }], false],
    ['boots', [1, 2], ['1', '2'], true],
    ['boots', [1, 2], [2, 1], false],
    ['boots', 'a', 'b', false],
    ['metadata', { a: 1, b: 2 }, { b: 2, a: 1 }, true],
    ['metadata', 1, '1', false],
    ['value', 1, '1', true],
  ])('%s is one value: %j and %j', (key, left, right, isEqual) => {
    const found = fieldAt(key)
    if (found?.kind !== 'leaf') throw new Error(`${key} is not one value`)
    expect(found.meaning(left) === found.meaning(right)).toBe(isEqual)
  })

  test.each<[string, unknown, unknown]>([
    ['size', { unit: 'MiB', value: '1' }, { unit: 'KiB', value: 1024 }],
    ['timers', [{ tick: '1' }], [{ tick: 1 }]],
    ['boots', ['1', 2], [1, 2]],
    ['boots', 'a', 'a'],
    ['metadata', { a: '1' }, { a: '1' }],
    ['value', '1', 1],
  ])('the spelling of %s %j', (key, value, expected) => {
    const found = fieldAt(key)
    expect(found?.kind === 'leaf' ? found.spelling(value) : undefined).toEqual(expected)
  })

  test('a union by an attribute', () => {
    const union = itemOf('disks')?.union
    expect(union?.by).toBe('type')
    expect(['type', 'hosts', 'host', 'dev'].map((key) => union?.owns(key))).toEqual([true, true, true, false])
    expect([{}, { type: 'file' }, { type: 5 }].map((value) => union?.branchOf(value))).toEqual([undefined, 'file', '5'])
    expect(['network', 'file', 'toString'].map((branch) => union?.validIn(branch))).toEqual([
      ['hosts'],
      undefined,
      undefined,
    ])
    expect(objectAt('features')?.union?.branchOf({ on: true })).toBe('true')
  })
})

describe('the structure of a schema', () => {
  const spec = () => structureAt(fresh(), ['spec'])
  const volume = () => {
    const volumes = structureAt(fresh(), ['spec', 'volumes'])
    return volumes?.kind === 'list' && volumes.item.kind === 'object' ? volumes.item : undefined
  }

  test('the fields of a spec, in their order', () => {
    const found = spec()
    if (found?.kind !== 'object') throw new Error('a spec is an object')
    expect(found.keys()).toEqual(['domain', ...Object.keys(specFields)])
    expect([found.place('domain'), found.place('none')]).toEqual([0, found.keys().length])
    expect([found.field('none'), found.field('toString')]).toEqual([undefined, undefined])
  })

  test('a volume is a union of the key that it has', () => {
    const union = volume()?.union
    expect([{ name: 'a', cloudInit: {} }, { name: 'a' }].map((value) => union?.branchOf(value))).toEqual([
      'cloudInit',
      undefined,
    ])
    expect([union?.owns('cloudInit'), union?.owns('name'), union?.validIn('cloudInit')]).toEqual([
      true,
      false,
      undefined,
    ])
    expect(structureAt(fresh(), ['spec', 'volumes'])).toMatchObject({ kind: 'list', keys: [[['name']]] })
  })

  test('labels have any keys', () => {
    const labels = structureAt(fresh(), ['metadata', 'labels'])
    if (labels?.kind !== 'object') throw new Error('labels are an object')
    expect([labels.keys(), labels.place('a'), labels.field('a')?.kind]).toEqual([[], 0, 'leaf'])
  })

  test.each([
    ['1073741824', '1Gi'],
    ['1024Mi', '1Gi'],
    ['1536Mi', '1536Mi'],
    ['1k', '1000'],
    ['0', '0'],
    ['1Ei', '1Ei'],
    ['2048', '2Ki'],
    ['500m', '500m'],
    ['text', 'text'],
    [5, 5],
  ])('the spelling of the quantity %j is %j', (value, expected) => {
    const capacity = structureAt(volume() ?? fresh(), ['emptyDisk', 'capacity'])
    expect(capacity?.kind === 'leaf' ? capacity.spelling(value) : undefined).toBe(expected)
  })
})

test('values and structures at a path', () => {
  expect([valueAt({ a: { b: 1 } }, ['a', 'b']), valueAt({ a: 1 }, ['a', 'b']), valueAt({}, ['toString'])]).toEqual([
    1,
    undefined,
    undefined,
  ])
  expect([structureAt(fresh(), ['spec', 'domain', 'words', '0']), structureAt(fresh(), ['none', 'a'])]).toEqual([
    undefined,
    undefined,
  ])
  expect(structureAt(virtualMachineStructure(), ['spec', 'domain', 'title'])?.kind).toBe('leaf')
})
