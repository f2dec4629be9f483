import { describe, expect, test } from 'vitest'
import { rootPath } from '../api/path.ts'
import { list, map, open, quantity, string, union } from '../api/schema.ts'
import { specFields } from '../api/virtual-machine.ts'
import { smallDomain } from '../test/presets/small-domain.ts'
import { emptyMerge, mergeSources } from './merge.ts'
import { byUser, rankOf, userRank } from './source.ts'
import { templateStructure } from './structure.ts'
import { emit } from './tree.ts'

const shared = { name: string('The name.') }
const kinds = {
  ...Object.fromEntries(Object.entries(specFields.volumes.items?.properties ?? {}).filter(([key]) => key !== 'name')),
  registryDisk: open('An image.', { image: string('Its name.'), size: quantity('Its size.') }),
}

/** The schema of a VM's spec with one more kind of volume, and three more fields. */
const structure = templateStructure(smallDomain, {
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
    structure,
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
  const spec = structure.field('spec')
  const limits = spec?.kind === 'object' ? spec.field('limits') : undefined
  const limit = limits?.kind === 'object' ? limits.field('memory') : undefined
  if (limit?.kind !== 'leaf') throw new Error('a limit is one value')
  expect(limit.meaning('1Gi')).toBe(limit.meaning('1024Mi'))
})
