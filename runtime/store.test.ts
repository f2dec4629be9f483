import * as fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { createStore } from './store.ts'
import type { Change } from './store.ts'

interface Thing {
  readonly metadata: {
    readonly namespace: string
    readonly name: string
    readonly uid: string
    readonly resourceVersion: string
  }
  readonly labels: readonly string[]
}

const thing = (name: string, uid: string, resourceVersion: string, labels: readonly string[] = []): Thing => ({
  metadata: { namespace: 'default', name, uid, resourceVersion },
  labels,
})

const start = () => createStore<Thing, 'label'>({ label: ({ labels }) => labels })
const kinds = (changes: readonly Change<Thing>[]) => changes.map(({ kind, object }) => `${kind} ${object.metadata.uid}`)

describe('store', () => {
  it('looks at no object of an index after the one that is wanted', () => {
    const store = start()
    for (const name of ['a', 'b', 'c', 'd']) store.put(thing(name, name, '1', ['x']))
    const seen: string[] = []
    const found = store.findByIndex('label', 'x', ({ metadata }) => seen.push(metadata.name) === 2)
    expect([found?.metadata.name, seen]).toEqual(['b', ['a', 'b']])
  })

  it('delivers additions, updates and deletions, and nothing for a known version', () => {
    const store = start()
    expect(kinds(store.put(thing('a', 'u1', '1')))).toEqual(['added u1'])
    expect(kinds(store.put(thing('a', 'u1', '1')))).toEqual([])
    const [change] = store.put(thing('a', 'u1', '2'))
    expect(change).toMatchObject({ kind: 'updated', previous: { metadata: { resourceVersion: '1' } } })
    expect(kinds(store.remove(thing('a', 'u1', '3')))).toEqual(['deleted u1'])
    expect(kinds(store.remove(thing('a', 'u1', '3')))).toEqual([])
  })

  it('treats another uid of the same name as another object', () => {
    const store = start()
    store.put(thing('a', 'u1', '1'))
    expect(kinds(store.put(thing('a', 'u2', '2')))).toEqual(['deleted u1', 'added u2'])
    expect(kinds(store.remove(thing('a', 'u1', '1')))).toEqual([])
    expect(store.size).toBe(1)
  })

  it('finds current objects by index', () => {
    const store = start()
    store.put(thing('a', 'u1', '1', ['x', 'y']))
    store.put(thing('b', 'u2', '2', ['x']))
    store.put(thing('a', 'u1', '3', ['y']))
    expect(store.byIndex('label', 'x').map(({ metadata }) => metadata.name)).toEqual(['b'])
    expect(store.byIndex('label', 'y').map(({ metadata }) => metadata.name)).toEqual(['a'])
    store.replace([])
    expect(store.byIndex('label', 'y')).toEqual([])
    expect(store.findByIndex('label', 'y', () => true)).toBeUndefined()
  })

  it('returns the same frozen list until something changes', () => {
    const store = start()
    store.put(thing('a', 'u1', '1', ['x']))
    const list = store.list()
    expect(store.list()).toBe(list)
    expect(Object.isFrozen(list) && Object.isFrozen(list[0]?.labels)).toBe(true)
    store.put(thing('b', 'u2', '2'))
    expect(store.list()).not.toBe(list)
    expect(list.length).toBe(1)
  })

  it('lists, keys and index agree, and changes add up, after any sequence of changes', () => {
    const object = fc
      .record({
        name: fc.constantFrom('a', 'b', 'c'),
        uid: fc.constantFrom('1', '2'),
        version: fc.nat(3),
        label: fc.constantFrom('x', 'y'),
      })
      .map(({ name, uid, version, label }) => thing(name, name + uid, `${version}`, [label]))
    const step = fc.oneof(
      fc.record({ do: fc.constantFrom('put' as const, 'remove' as const), object }),
      fc.record({
        do: fc.constant('replace' as const),
        objects: fc.uniqueArray(object, { selector: ({ metadata }) => metadata.name }),
      }),
    )
    fc.assert(
      fc.property(fc.array(step), (steps) => {
        const store = start()
        const delivered = new Map<string, Thing>()
        for (const one of steps) {
          const changes = one.do === 'replace' ? store.replace(one.objects) : store[one.do](one.object)
          for (const { kind, object: of } of changes) {
            expect(delivered.has(of.metadata.uid)).toBe(kind !== 'added')
            if (kind === 'deleted') delivered.delete(of.metadata.uid)
            else delivered.set(of.metadata.uid, of)
          }
          const list = [...store.list()]
          expect(list.toSorted(byUid)).toEqual([...delivered.values()].toSorted(byUid))
          expect(list.every((of) => store.get(`default/${of.metadata.name}`) === of)).toBe(true)
          for (const label of ['x', 'y']) {
            expect([...store.byIndex('label', label)].toSorted(byUid)).toEqual(
              list.filter(({ labels }) => labels.includes(label)).toSorted(byUid),
            )
          }
        }
      }),
    )
  })
})

const byUid = (a: Thing, b: Thing) => (a.metadata.uid < b.metadata.uid ? -1 : 1)
