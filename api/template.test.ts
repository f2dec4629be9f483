import { expect, test } from 'vitest'

import { isControlledBy, ownerReference } from './template.ts'

const group = { kind: 'VirtualMachineGroup', metadata: { name: 'web', namespace: 'shop', uid: 'g-1' } } as const
const reference = ownerReference(group)
const vmWith = (changes: Partial<typeof reference>, namespace = 'shop') => ({
  metadata: { name: 'web-a', namespace, ownerReferences: [{ ...reference, ...changes }] },
})

test('a group controls the VM that refers to it as its controller', () => {
  expect(isControlledBy(vmWith({}), group)).toBe(true)
  expect(isControlledBy(vmWith({ apiVersion: 'virtset.io/v1' }), group)).toBe(true)
})

test.each([
  ['another uid', vmWith({ uid: 'g-2' })],
  ['another kind of virtset', vmWith({ kind: 'VirtualMachineConfig' })],
  ['a kind that users may refer to', vmWith({ apiVersion: 'v1', kind: 'ConfigMap' })],
  ['a group of another API', vmWith({ apiVersion: 'example.org/v1' })],
  ['an owner that is not the controller', vmWith({ controller: false })],
  ['another namespace', vmWith({}, 'elsewhere')],
  ['no owner', { metadata: { name: 'web-a', namespace: 'shop' } }],
])('does not control a VM with %s', (_, vm) => {
  expect(isControlledBy(vm, group)).toBe(false)
})
