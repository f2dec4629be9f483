import { expect, test } from 'vitest'
import { knownPartOf } from './known-part.ts'
import { Refused } from './refused.ts'

const vm = (domain: object, more: object = {}) => ({
  apiVersion: 'virtset.io/v1alpha1',
  kind: 'VirtualMachine',
  metadata: { name: 'testvm', namespace: 'default', uid: 'u-1' },
  spec: { domain: { type: 'qemu', ...domain }, ...more },
})

test('a VM of this version is unchanged', () => {
  expect(knownPartOf(vm({ title: 'x' }))).toEqual({ vm: vm({ title: 'x' }), ignored: [] })
})

test('the fields of a newer version are ignored, and listed', () => {
  const newer = vm({ title: 'x', quantum: true, memoryBacking: { fabric: { kind: 'cxl' } } }, { affinityOfMoons: 7 })
  expect(knownPartOf(newer)).toEqual({
    vm: vm({ title: 'x', memoryBacking: {} }),
    ignored: [
      { field: 'spec.affinityOfMoons', spec: 7 },
      { field: 'spec.domain.quantum', spec: true },
      { field: 'spec.domain.memoryBacking.fabric' },
    ],
  })
})

test('a long path is shortened to what the handler accepts', () => {
  const { ignored } = knownPartOf(vm({ ['x'.repeat(3000)]: 1 }))
  expect(ignored.map(({ field }) => field.length)).toEqual([1024])
})

test.each([
  ['a body that is not a VM', { metadata: {} }],
  ['a value that this version does not allow', vm({ title: 7 })],
  ['an unknown field beside another fault', vm({ quantum: true, title: 7 })],
  ['a volume of a kind that this version does not know', vm({}, { volumes: [{ name: 'a', hologram: {} }] })],
])('%s is refused', (_, body) => {
  expect(() => knownPartOf(body)).toThrow(Refused)
})
