import { expect, test } from 'vitest'
import { fakeClock } from '../../test/fake-clock.ts'
import { createCompletedVms } from './completed-vms.ts'

const vm = {
  metadata: { name: 'a', labels: { x: 'y' }, uid: '1' },
  spec: { domain: { type: 'qemu', list: [1, { a: 1, b: 2 }] } },
}

test('recognizes an added VM in any order of keys, with anything that the API server adds', () => {
  const cache = createCompletedVms(fakeClock())
  cache.add('ns', vm)
  const again = {
    spec: { domain: { list: [1, { b: 2, a: 1 }], type: 'qemu' } },
    metadata: { labels: { x: 'y' }, name: 'a', generation: 1 },
  }
  expect(cache.has('ns', again)).toBe(true)
})

test.each<[string, string, unknown]>([
  ['in another namespace', 'other', vm],
  ['by another name', 'ns', { ...vm, metadata: { ...vm.metadata, name: 'b' } }],
  ['with another label', 'ns', { ...vm, metadata: { ...vm.metadata, labels: { x: 'z' } } }],
  ['with an annotation', 'ns', { ...vm, metadata: { ...vm.metadata, annotations: { x: 'z' } } }],
  ['with another spec', 'ns', { ...vm, spec: { domain: { type: 'qemu', list: [1, { a: 1 }] } } }],
  [
    'with a list in place of an object',
    'ns',
    {
      ...vm,
      spec: {
        domain: {
          type: 'qemu',
          list: [
            1,
            [
              ['a', 1],
              ['b', 2],
            ],
          ],
        },
      },
    },
  ],
  ['as null', 'ns', null],
])('does not have it %s', (_, namespace, other) => {
  const cache = createCompletedVms(fakeClock())
  cache.add('ns', vm)
  expect(cache.has(namespace, other)).toBe(false)
})

test('has several VMs, by their UUIDs, and one without domain', () => {
  const cache = createCompletedVms(fakeClock())
  const vms = ['a', 'b'].map((uuid) => ({ metadata: { name: 'a' }, spec: { domain: { uuid } } }))
  const all = [...vms, { metadata: { name: 'c' } }]
  for (const one of all) cache.add('ns', one)
  expect(all.map((one) => cache.has('ns', one))).toEqual([true, true, true])
})

test('has it under the name that the API server generates', () => {
  const cache = createCompletedVms(fakeClock())
  const { name: _none, ...metadata } = vm.metadata
  cache.add('ns', { ...vm, metadata: { ...metadata, generateName: 'a-' } })
  expect(cache.has('ns', { ...vm, metadata: { ...metadata, generateName: 'a-', name: 'a-x7k2p' } })).toBe(true)
})

test('evicts old VMs, and the oldest beyond the limit', async () => {
  const clock = fakeClock()
  // The cache treats the time 0 as unset.
  await clock.advance(1)
  const cache = createCompletedVms(clock, 1000)
  cache.add('ns', vm)
  await clock.advance(15_001)
  expect(cache.has('ns', vm)).toBe(false)
  for (let index = 0; index < 20; index++) cache.add(`${index}`, vm)
  expect([cache.has('0', vm), cache.has('19', vm)]).toEqual([false, true])
})
