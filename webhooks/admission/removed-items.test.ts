import { describe, expect, test } from 'vitest'
import { decodeProvenance, encodeProvenance } from '../../completion/provenance.ts'
import { digestOf } from '../../presets/digest.ts'
import type { Shortened } from '../../presets/origins.ts'
import { withoutRemovedItems } from './removed-items.ts'

const serial = { type: 'pty' }
const [a, b, c] = ['a', 'b', 'c'].map((name) => ({ name, emptyDisk: { capacity: '1Mi' } }))
const disk = (dev: string, more: object = {}) => ({ target: { dev }, ...more })
const hosts = { hosts: [{ name: 'one' }, { name: 'two' }] }

/** As the annotation of a stored VM records them. */
function recorded(lists: { readonly [path: string]: Shortened }): ReadonlyMap<string, Shortened> {
  const shortened = new Map(Object.entries(lists))
  const none = { origins: new Map(), overridden: new Map(), removed: new Map(), skipped: [] }
  const { text } = encodeProvenance({ ...none, shortened }, { metadata: {} })
  return decodeProvenance(text)?.shortened ?? new Map()
}

/** Removed: the first of three disks, a host of the second, the second serial, all rngs, volume a. */
const removed = recorded({
  'spec.domain.devices.disks': { length: 3, missing: new Map([[0, digestOf(disk('vda'))]]) },
  'spec.domain.devices.disks[0].source.hosts': { length: 2, missing: new Map([[0, digestOf({ name: 'one' })]]) },
  'spec.domain.devices.serials': { length: 2, missing: new Map([[1, digestOf(serial)]]) },
  'spec.domain.devices.rngs': { length: 1, missing: new Map([[0, digestOf({ model: 'virtio' })]]) },
  'spec.domain.vcpus.vcpus': { length: 1, missing: new Map([[0, digestOf({ id: 0 })]]) },
  'spec.volumes': { length: 2, missing: new Map([[0, digestOf(a)]]) },
})
const stored = {
  domain: {
    devices: {
      disks: [disk('vdb', { source: { hosts: [{ name: 'two' }] } }), disk('vdc'), disk('vdd')],
      serials: [{ ...serial, target: { port: 0 } }],
    },
  },
  volumes: [b, c],
}

describe('a list of a manifest', () => {
  test.each<[string, unknown, unknown]>([
    [
      'with the removed items',
      { domain: { devices: { serials: [serial, serial] } } },
      { domain: { devices: { serials: [serial] } } },
    ],
    ['without them', { domain: { devices: { serials: [serial] } } }, { domain: { devices: { serials: [serial] } } }],
    [
      'with another item in the place of one',
      { domain: { devices: { serials: [serial, { type: 'null' }] } } },
      { domain: { devices: { serials: [serial, { type: 'null' }] } } },
    ],
    [
      'with the removed items and another one',
      { domain: { devices: { serials: [serial, serial, serial] } } },
      { domain: { devices: { serials: [serial, serial, serial] } } },
    ],
    [
      'of which all were removed',
      { domain: { devices: { rngs: [{ model: 'virtio' }] } } },
      { domain: { devices: {} } },
    ],
    ['of which all were removed, with its object', { domain: { vcpus: { vcpus: [{ id: 0 }] } } }, { domain: {} }],
    [
      'with changes of other items',
      { domain: { devices: { disks: [disk('vda'), disk('vdb', { source: hosts }), disk('vdz')] } } },
      { domain: { devices: { disks: [disk('vdb', { source: { hosts: [{ name: 'two' }] } }), disk('vdz')] } } },
    ],
    ['that equals the stored one', stored, stored],
    ['of volumes', { volumes: [a, b] }, { volumes: [b] }],
    ['of volumes, merged with those of presets', { volumes: [c, a, b] }, { volumes: [c, b] }],
    ['of volumes with the name of a removed one', { volumes: [{ name: 'a' }, b] }, { volumes: [{ name: 'a' }, b] }],
    ['that is none', { domain: { devices: 7 }, volumes: { a: 1 } }, { domain: { devices: 7 }, volumes: { a: 1 } }],
    ['of no spec', 'x', 'x'],
  ])('%s', (_, sent, expected) => expect(withoutRemovedItems(sent, stored, removed).spec).toEqual(expected))

  test('that equals the stored one keeps an item that equals the removed one', () => {
    const lost = recorded({ 'spec.list': { length: 2, missing: new Map([[0, digestOf(1)]]) } })
    const specs = [
      [1, 1],
      [1, 2],
    ].map((list) => withoutRemovedItems({ list }, { list: [1, 1] }, lost).spec)
    expect(specs).toEqual([{ list: [1, 1] }, { list: [2] }])
  })
})

test('paths are those of the manifest', () => {
  const disks = [disk('vda'), disk('vdb', { source: hosts }), disk('vdc')]
  const { sentPath } = withoutRemovedItems({ domain: { devices: { disks } } }, stored, removed)
  const path = 'spec.domain.devices.disks'
  expect(
    [`${path}[0].target.dev`, `${path}[0].source.hosts[0].name`, `${path}[1]`, `${path}[2]`, path, 'spec'].map(
      sentPath,
    ),
  ).toEqual([`${path}[1].target.dev`, `${path}[1].source.hosts[1].name`, `${path}[2]`, `${path}[2]`, path, 'spec'])
})

test('the path of a long key is not taken apart', () => {
  const disks = [disk('vda'), disk('vdb', { source: hosts }), disk('vdc')]
  const { sentPath } = withoutRemovedItems({ domain: { devices: { disks } } }, stored, removed)
  // It has 8,000 paths above it, each of which would be looked up: minutes for all of them.
  const paths = Array.from({ length: 2000 }, (_, index) => `spec[${index}${'a.'.repeat(8000)}[]`)
  expect(paths.map(sentPath)).toEqual(paths)
})

test('lists in lists are not read again for each level that a claim names', () => {
  const levels = Array.from({ length: 80 }, (_, level) => `spec.list${'[0]'.repeat(level)}`)
  const lists = levels.map((path) => [path, { length: 1, missing: new Map([[0, digestOf(1)]]) }] as const)
  const lost = recorded(Object.fromEntries(lists))
  expect(lost.size).toBe(80)
  let reads = 0
  const counted = new Proxy({}, { ownKeys: () => (reads++, []) })
  const list = levels.reduce<unknown>((below) => [below], counted)
  expect(withoutRemovedItems({ list }, {}, lost).spec).toEqual({ list })
  expect(reads).toBeLessThan(10)
})

test.each<[string, string[], number]>([
  ['that are stored or can be removed ones', ['b', 'c', 'x', 'y', 'z'], 3],
  ['that are more than these', ['b', 'c', 'x', 'y', 'z', 'zz'], 0],
  ['without a name', ['b', 'c', ''], 0],
])('of volumes %s, only those with another name are hashed', (_, names, hashed) => {
  const read = new Set<number>()
  const volumes = names.map(
    (name, index) =>
      new Proxy(name === '' ? {} : { name }, { ownKeys: (item) => (read.add(index), Reflect.ownKeys(item)) }),
  )
  const claim = recorded({ 'spec.volumes': { length: 1e9, missing: new Map([[0, digestOf(a)]]) } })
  const { spec } = withoutRemovedItems({ volumes }, stored, claim) as { spec: { volumes: unknown[] } }
  expect(spec.volumes).toBe(volumes)
  expect(read.size).toBe(hashed)
})

test('what is nested deeper than the stack allows is not visited', () => {
  let deep: unknown = 1
  for (let level = 0; level < 100_000; level += 1) deep = { deep }
  const list = [deep, deep]
  const lost = recorded({ 'spec.list': { length: 2, missing: new Map([[0, digestOf(1)]]) } })
  const { spec } = withoutRemovedItems({ list, other: deep }, { list: [1] }, lost) as { spec: { list: unknown[] } }
  expect(spec.list[0]).toBe(deep)
})
