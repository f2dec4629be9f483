import * as fc from 'fast-check'
import { expect, test } from 'vitest'
import type { LabelSelector } from '../api/object.ts'
import { ownerReference } from '../api/template.ts'
import type { VirtualMachine } from '../api/virtual-machine.ts'
import { compileSelector, isSelected } from '../presets/selector.ts'
import type { Persisted } from '../runtime/resource.ts'
import { createStore } from '../runtime/store.ts'
import { storedVm } from '../test/stored-vm.ts'
import { createAdoptableVms } from './adoptable-vms.ts'
import { createGroupIndex, isAdoptable, isToAdopt } from './group-index.ts'
import type { CachedGroup } from './slim-owner.ts'

type Vm = Persisted<VirtualMachine>
type Labels = { readonly [key: string]: string }

/** Groups and VMs as the controller knows them. */
function world(limit?: number) {
  const index = createGroupIndex()
  const groups = createStore<CachedGroup>()
  const vms = createStore<VirtualMachine>()
  let comparisons = 0
  let scans = 0
  let version = 0
  const all = {
    free: (namespace: string | undefined) => {
      scans += 1
      const free = vms.list().filter((vm) => isAdoptable(vm) && vm.metadata.namespace === namespace)
      comparisons += free.length
      return free
    },
    get: (key: string) => {
      comparisons += 1
      return vms.get(key)
    },
  }
  const adoptable = limit === undefined ? createAdoptableVms(all) : createAdoptableVms(all, limit)
  const putGroup = (name: string, selector: LabelSelector, paused = false) => {
    const metadata = { namespace: 'default', name, uid: name, resourceVersion: `${++version}` }
    const changes = groups.put({
      apiVersion: 'virtset.io/v1alpha1',
      kind: 'VirtualMachineGroup',
      metadata,
      spec: { selector, paused },
    })
    for (const change of changes) {
      index.update(change)
      adoptable.update(change)
    }
  }
  const putVm = (name: string, labels: Labels, owner?: string) => {
    const reference = ownerReference({ kind: 'VirtualMachineGroup', metadata: { name: 'o', uid: owner ?? '' } })
    const ownerReferences = owner === undefined ? [] : [reference]
    const metadata = { name, uid: name, resourceVersion: `${++version}`, labels, ownerReferences }
    for (const change of vms.put(storedVm({ metadata }))) {
      if (!isToAdopt(change)) continue
      for (const group of index.adopting(change.object)) adoptable.found(group, change.object)
    }
  }
  const removeVm = (name: string) => {
    const vm = vms.get(`default/${name}`)
    if (vm) vms.remove(vm)
  }
  const of = (name: string) => {
    const group = groups.get(`default/${name}`)
    return group === undefined ? [] : namesOf(adoptable.of(group))
  }
  /** What a comparison with each VM finds. */
  const expected = (name: string) => {
    const group = groups.get(`default/${name}`)
    if (group === undefined || group.spec.paused === true) return []
    const selector = compileSelector(group.spec.selector)
    return namesOf(vms.list().filter((vm) => isAdoptable(vm) && isSelected(selector, vm.metadata.labels ?? {})))
  }
  const compared = (act: () => unknown) => {
    comparisons = 0
    act()
    return comparisons
  }
  /** Whether a pass of the group compares it with all VMs. */
  const isScanned = (name: string) => {
    scans = 0
    of(name)
    return scans > 0
  }
  return { putGroup, putVm, removeVm, of, expected, compared, isScanned }
}
const namesOf = (vms: readonly Vm[]) => vms.map(({ metadata }) => metadata.name).toSorted()

const labels = fc.dictionary(fc.constantFrom('a', 'b'), fc.constantFrom('1', '2'), { maxKeys: 2 })
const group = fc.constantFrom('g', 'h')
const selector = fc.constantFrom<LabelSelector[]>(
  { matchLabels: { a: '1' } },
  { matchLabels: { a: '2' } },
  { matchExpressions: [{ key: 'b', operator: 'DoesNotExist' }] },
  { matchLabels: { a: '1' }, matchExpressions: [{ key: 'b', operator: 'NotIn', values: ['2'] }] },
)
const step = fc.oneof(
  fc.record({ do: fc.constant('group' as const), group, selector, paused: fc.boolean() }),
  fc.record({
    do: fc.constant('vm' as const),
    vm: fc.constantFrom('v', 'w', 'x'),
    labels,
    owner: fc.option(fc.constant('u'), { nil: undefined }),
  }),
  fc.record({ do: fc.constant('remove' as const), vm: fc.constantFrom('v', 'w', 'x') }),
  fc.record({ do: fc.constant('pass' as const), group }),
)

test('a group gets the VMs that a comparison with each finds, whatever has changed since its last pass', () => {
  fc.assert(
    fc.property(fc.array(step, { maxLength: 30 }), fc.constantFrom(undefined, 3), (steps, limit) => {
      const { putGroup, putVm, removeVm, of, expected } = world(limit)
      for (const one of steps) {
        if (one.do === 'group') putGroup(one.group, one.selector, one.paused)
        else if (one.do === 'vm') putVm(one.vm, one.labels, one.owner)
        else if (one.do === 'remove') removeVm(one.vm)
        else of(one.group)
      }
      expect([of('g'), of('h')]).toEqual([expected('g'), expected('h')])
    }),
    { numRuns: 1000 },
  )
})

test('a pass reads only VMs that the index has found since, until the selector changes', () => {
  const { putGroup, putVm, of, compared } = world()
  for (let count = 0; count < 1000; count++) putVm(`other-${count}`, { a: '2' })
  putGroup('g', { matchLabels: { a: '1' } })
  expect(compared(() => of('g'))).toBe(1000)
  putVm('v', { a: '1' })
  putVm('w', { a: '2' })
  expect(compared(() => of('g'))).toBe(1)
  expect(of('g')).toEqual(['v'])
  putVm('v', { a: '2' })
  of('g')
  expect(compared(() => of('g'))).toBe(0)
  putGroup('g', { matchLabels: { a: '1' } })
  expect(compared(() => of('g'))).toBe(0)
  putGroup('g', { matchLabels: { a: '2' } })
  expect(compared(() => of('g'))).toBe(1002)
})

test('of many VMs that a group could adopt, all are found', () => {
  const { putGroup, putVm, of } = world()
  putGroup('g', { matchLabels: { a: '1' } })
  of('g')
  for (let count = 0; count < 300; count++) putVm(`v${count}`, { a: '1' })
  expect([of('g').length, of('g').length]).toEqual([300, 300])
})

test('of all groups together, a limited number of VMs is stored, of the last groups', () => {
  const { putGroup, putVm, of, isScanned } = world()
  for (let count = 0; count < 99; count++) putVm(`v${count}`, { a: '1' })
  const names = Array.from({ length: 600 }, (_, count) => `g${count}`)
  for (const name of names) putGroup(name, { matchLabels: { a: '1' } })
  for (const name of names) of(name)
  expect(names.toReversed().findIndex(isScanned)).toBe(500)
})

test('VMs that the index finds for groups count as well', () => {
  const { putGroup, putVm, of, isScanned } = world(100)
  const names = Array.from({ length: 20 }, (_, count) => `g${count}`)
  for (const name of names) putGroup(name, { matchLabels: { a: '1' } })
  for (const name of names) of(name)
  for (let count = 0; count < 9; count++) putVm(`v${count}`, { a: '1' })
  // The first or the last one that was found is not stored any more.
  expect(isScanned('g0') || isScanned('g19')).toBe(true)
  expect([of('g0').length, of('g19').length]).toEqual([9, 9])
})
