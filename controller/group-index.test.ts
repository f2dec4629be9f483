import * as fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import type { LabelRequirement, LabelSelector, ObjectMeta } from '../api/object.ts'
import { ownerReference } from '../api/template.ts'
import { compileSelector, isSelected } from '../presets/selector.ts'
import type { Persisted } from '../runtime/resource.ts'
import { pick } from '../runtime/slim.ts'
import { storedVm } from '../test/stored-vm.ts'
import { createGroupIndex, isToAdopt, ownersOf } from './group-index.ts'
import type { CachedGroup } from './slim-owner.ts'

const group = (
  name: string,
  selector: LabelSelector,
  state: Pick<CachedGroup, 'hasClaims' | 'isTooLarge'> & { readonly paused?: boolean },
  namespace = 'default',
): Persisted<CachedGroup> => ({
  apiVersion: 'virtset.io/v1alpha1',
  kind: 'VirtualMachineGroup',
  metadata: { name, namespace, uid: `${namespace}-${name}`, resourceVersion: '1' },
  spec: { selector, paused: state.paused === true },
  ...pick(state, 'hasClaims', 'isTooLarge'),
})
const stateOf = (done: string) =>
  done === 'pause' ? { paused: true } : done === 'claims' ? ({ hasClaims: true } as const) : {}
const vm = (metadata: ObjectMeta) => storedVm({ metadata })

const keys = fc.constantFrom('a', 'b', 'c')
const values = fc.constantFrom('1', '2', '3')
const labels = fc.dictionary(keys, values, { maxKeys: 3 })
const requirement: fc.Arbitrary<LabelRequirement> = fc.oneof(
  fc.record({
    key: keys,
    operator: fc.constantFrom('In' as const, 'NotIn' as const),
    values: fc.array(values, { minLength: 1, maxLength: 3 }),
  }),
  fc.record({ key: keys, operator: fc.constantFrom('Exists' as const, 'DoesNotExist' as const) }),
)
const selector = fc.record({ matchLabels: labels, matchExpressions: fc.array(requirement, { maxLength: 3 }) })
const namespaces = fc.constantFrom('default', 'other')

it('finds the same groups as a comparison with each', () => {
  const change = fc.record({
    name: fc.constantFrom('g', 'h', 'i', 'j', 'k'),
    selector,
    namespace: namespaces,
    do: fc.constantFrom('put', 'put', 'put', 'pause', 'claims', 'delete'),
  })
  fc.assert(
    fc.property(fc.array(change, { maxLength: 20 }), labels, namespaces, (changes, of, namespace) => {
      const index = createGroupIndex()
      const all = new Map<string, Persisted<CachedGroup>>()
      for (const one of changes) {
        const object = group(one.name, one.selector, stateOf(one.do), one.namespace)
        const key = `${one.namespace}/${one.name}`
        index.update({ kind: one.do === 'delete' ? 'deleted' : 'added', object })
        if (one.do === 'delete') all.delete(key)
        else all.set(key, object)
      }
      const expected = [...all].filter(
        ([, { metadata, spec, hasClaims }]) =>
          metadata.namespace === namespace &&
          spec.paused !== true &&
          hasClaims !== true &&
          isSelected(compileSelector(spec.selector), of),
      )
      expect(index.adopting(vm({ namespace, labels: of })).toSorted()).toEqual(expected.map(([key]) => key).toSorted())
    }),
    { numRuns: 1000 },
  )
})

it('compares a VM with as many groups as require one of its labels, whatever the number of the others', () => {
  const readsWith = (count: number): number => {
    const index = createGroupIndex()
    const matchExpressions = Array.from({ length: 256 }, (_, at) => ({
      key: `k${at}`,
      operator: 'DoesNotExist' as const,
    }))
    for (let at = 0; at < count; at++) {
      index.update({
        kind: 'added',
        object: group(`g${at}`, { matchLabels: { app: `a${at}` }, matchExpressions }, {}),
      })
    }
    let reads = 0
    const counting = new Proxy<Record<string, string>>(
      { app: 'a7' },
      { getOwnPropertyDescriptor: (target, key) => ((reads += 1), Reflect.getOwnPropertyDescriptor(target, key)) },
    )
    expect(index.adopting(vm({ labels: counting }))).toEqual(['default/g7'])
    return reads
  }
  expect(readsWith(2000)).toBe(readsWith(10))
})

it('finds the group that owns a VM, in its namespace only', () => {
  const index = createGroupIndex()
  const object = group('g', { matchLabels: { a: '1' } }, { paused: true })
  index.update({ kind: 'added', object })
  expect(index.owning(vm({}), 'default-g')).toBe('default/g')
  expect([index.owning(vm({ namespace: 'other' }), 'default-g'), index.owning(vm({}), 'x')]).toEqual([
    undefined,
    undefined,
  ])
  index.update({ kind: 'deleted', object })
  expect(index.owning(vm({}), 'default-g')).toBeUndefined()
})

describe('a change of a VM', () => {
  const owned = vm({
    ownerReferences: [ownerReference({ kind: 'VirtualMachineGroup', metadata: { name: 'g', uid: 'u' } })],
  })
  const free = vm({ labels: { a: '1' } })
  const relabelled = vm({ labels: { a: '2' } })
  const ended = { ...relabelled, status: { phase: 'Succeeded' as const } }
  const ending = vm({ labels: { a: '2' }, deletionTimestamp: '2030-01-01T00:00:00Z' })
  const running = { ...free, status: { phase: 'Running' as const } }

  it.each<[string, Parameters<typeof isToAdopt>[0], boolean, string[]]>([
    ['that is new concerns groups that could adopt it', { kind: 'added', object: free }, true, []],
    ['that is owned concerns its owner', { kind: 'added', object: owned }, false, ['u']],
    ['whose labels change', { kind: 'updated', object: relabelled, previous: free }, true, []],
    ['whose status changes concerns no group', { kind: 'updated', object: running, previous: free }, false, []],
    ['that loses its owner', { kind: 'updated', object: free, previous: owned }, true, ['u']],
    ['that is adopted', { kind: 'updated', object: owned, previous: free }, false, ['u']],
    ['that has ended, and gets labels', { kind: 'updated', object: ended, previous: free }, false, []],
    ['that is being deleted, and gets labels', { kind: 'updated', object: ending, previous: free }, false, []],
    ['that is gone', { kind: 'deleted', object: free }, false, []],
  ])('%s', (_, change, isAdoptable, owners) => {
    expect([isToAdopt(change), ownersOf(change)]).toEqual([isAdoptable, owners])
  })
})
