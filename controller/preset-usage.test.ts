import * as fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import type { Preset } from '../api/preset.ts'
import { createCandidates } from '../presets/candidates.ts'
import { compileParsed } from '../presets/compile.ts'
import type { Persisted } from '../runtime/resource.ts'
import { createStore } from '../runtime/store.ts'
import { storedVm } from '../test/stored-vm.ts'
import { createPresetUsage, unused } from './preset-usage.ts'
import type { CachedVm } from './slim-vm.ts'

const compiled = (namespace: string, size: string, title = size) =>
  compileParsed({
    apiVersion: 'virtset.io/v1alpha1',
    kind: 'VirtualMachinePreset',
    metadata: { namespace, name: size, uid: 'p', resourceVersion: '3', generation: 2 },
    spec: { selector: { matchLabels: { size } }, domain: { title } },
  } satisfies Persisted<Preset>)
const small = compiled('default', 'small')
const { revision } = small.origin

let versions = 0
const vm = (name: string, size: string, completedWith: Record<string, string> = {}, namespace = 'default') =>
  storedVm({
    metadata: {
      name,
      namespace,
      uid: name,
      resourceVersion: String(++versions),
      labels: { size },
      annotations: completedWith,
    },
  })

/** VMs and their usage, with the number of VMs whose presets were looked up. */
function setUp(presets = [small]) {
  const store = createStore<CachedVm>()
  const candidates = createCandidates(presets)
  let lookups = 0
  let meanwhile: () => void = () => {}
  const usage = createPresetUsage({
    vms: store,
    candidates: {
      ...candidates,
      select: (labels, namespace) => {
        lookups++
        meanwhile()
        return candidates.select(labels, namespace)
      },
    },
    namespaceOf: (name) => ({ name, labels: {} }),
    presetsOf: ({ metadata }) => new Map(Object.entries(metadata.annotations ?? {})),
  })
  return {
    usage,
    candidates,
    put: (object: Persisted<CachedVm>) => store.put(object).map((change) => usage.update(change)),
    remove: (object: Persisted<CachedVm>) => store.remove(object).map((change) => usage.update(change)),
    count: async () => {
      lookups = 0
      return [...(await usage.count())].toSorted()
    },
    lookups: () => lookups,
    during: (run: () => void) => (meanwhile = run),
    of: (...ids: readonly string[]) => ids.map((id) => usage.of(id)),
  }
}

describe('the usage of presets', () => {
  it('counts VMs that it selects, that were completed with it, and with another revision of it', async () => {
    const { put, count, of } = setUp()
    put(vm('a', 'small', { 'default/small': revision }))
    put(vm('b', 'small', { 'default/small': 'old' }))
    put(vm('c', 'small'))
    put(vm('d', 'large', { 'default/small': 'older', gone: 'x' }))
    put(vm('e', 'small', {}, 'other'))
    expect(await count()).toEqual(['default/small', 'gone'])
    expect(of('default/small', 'gone', 'other')).toEqual([
      { matched: 3, applied: 3, outdated: 2 },
      { matched: 0, applied: 1, outdated: 1 },
      unused,
    ])
  })

  it('is counted again only of the VM that changes, and for the presets that concern it', async () => {
    const all = ['default', 'other'].flatMap((namespace) => ['small', 'large'].map((size) => compiled(namespace, size)))
    const { put, remove, count, lookups, of } = setUp(all)
    for (let index = 0; index < 1000; index++) put(vm(`a${index}`, 'small', {}, index % 2 === 0 ? 'default' : 'other'))
    expect(await count()).toEqual(['default/small', 'other/small'])
    expect(lookups()).toBe(1000)
    expect(put(vm('new', 'small', { 'default/small': 'old' }))).toEqual([true])
    expect([await count(), lookups()]).toEqual([['default/small'], 1])
    expect(of('default/small')).toEqual([{ matched: 501, applied: 1, outdated: 1 }])
    put(vm('new', 'large', { 'default/small': 'old' }))
    expect([await count(), lookups()]).toEqual([['default/large', 'default/small'], 2])
    expect(of('default/small', 'default/large')).toEqual([
      { matched: 500, applied: 1, outdated: 1 },
      { matched: 1, applied: 0, outdated: 0 },
    ])
    // The last version of a deleted object can be one that no update delivered.
    remove(vm('new', 'small'))
    expect([await count(), lookups()]).toEqual([['default/large', 'default/small'], 1])
    expect(of('default/small', 'default/large')).toEqual([{ matched: 500, applied: 0, outdated: 0 }, unused])
  })

  it('is not counted again for a change of anything else of a VM', async () => {
    const { put, count, lookups, of } = setUp()
    put(vm('a', 'small'))
    await count()
    for (let change = 0; change < 3; change++) expect(put(vm('a', 'small'))).toEqual([false])
    expect([await count(), lookups()]).toEqual([[], 0])
    put(vm('a', 'large'))
    expect(await count()).toEqual(['default/small'])
    expect(of('default/small')).toEqual([unused])
  })

  it('is not counted for a VM that comes and goes in between', async () => {
    const { put, remove, count, lookups } = setUp()
    await count()
    put(vm('a', 'small'))
    remove(vm('a', 'small'))
    expect([await count(), lookups()]).toEqual([[], 0])
  })

  it('is counted of all VMs after a change of presets', async () => {
    const { put, usage, candidates, count, lookups, of } = setUp()
    put(vm('a', 'small', { 'default/small': revision }))
    put(vm('b', 'large'))
    await count()
    candidates.set(compiled('default', 'small', 'another'))
    usage.restart()
    expect([await count(), lookups()]).toEqual([['default/small'], 2])
    expect(of('default/small')).toEqual([{ matched: 1, applied: 1, outdated: 1 }])
    candidates.delete('default/small')
    usage.restart()
    put(vm('a', 'small'))
    expect(await count()).toEqual(['default/small'])
    expect(of('default/small')).toEqual([unused])
  })

  it('is counted of all VMs if presets change while some are counted', async () => {
    const { put, usage, candidates, count, during, of } = setUp()
    put(vm('a', 'small'))
    put(vm('b', 'small'))
    await count()
    put(vm('b', 'large'))
    during(() => {
      during(() => {})
      candidates.set(compiled('default', 'large'))
      usage.restart()
    })
    expect(await count()).toEqual(['default/large', 'default/small'])
    const counted = [
      { matched: 1, applied: 0, outdated: 0 },
      { matched: 1, applied: 0, outdated: 0 },
    ]
    expect(of('default/small', 'default/large')).toEqual(counted)
    during(() => {
      during(() => {})
      candidates.set(compiled('default', 'small', 'another'))
      usage.restart()
    })
    usage.restart()
    await count()
    await count()
    expect(of('default/small', 'default/large')).toEqual(counted)
  })

  const change = fc.record({
    name: fc.constantFrom('a', 'b', 'c'),
    does: fc.constantFrom<('put' | 'remove' | 'count' | 'preset')[]>('put', 'put', 'remove', 'count', 'preset'),
    size: fc.constantFrom('small', 'large'),
    completedWith: fc.constantFrom<Record<string, string>[]>({}, { 'default/small': revision }, { gone: 'x' }),
  })
  it('is the same as if all VMs were counted, whatever changes', async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(change, { maxLength: 30 }), async (changes) => {
        const { usage, put, remove, candidates, count, of } = setUp()
        for (const { name, does, size, completedWith } of changes) {
          if (does === 'put') put(vm(name, size, completedWith))
          else if (does === 'remove') remove(vm(name, size, completedWith))
          else if (does === 'count') await count()
          else {
            candidates.set(compiled('default', size, name))
            usage.restart()
          }
        }
        const ids = ['default/small', 'default/large', 'gone']
        await count()
        const found = of(...ids).map((one) => ({ ...one }))
        usage.restart()
        expect(await count()).toEqual([])
        expect(found).toEqual(of(...ids))
      }),
    )
  })
})
