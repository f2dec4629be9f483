import { expect, test } from 'vitest'
import type { ObjectMeta } from '../../api/object.ts'
import type { VirtualMachine } from '../../api/virtual-machine.ts'
import { withoutManagedFields } from './managed-fields.ts'

const vm = (metadata: ObjectMeta): VirtualMachine => ({
  apiVersion: 'virtset.io/v1alpha1',
  kind: 'VirtualMachine',
  metadata: { name: 'vm', ...metadata },
  spec: { domain: {} },
})

const entry = (operation: string) => ({ manager: 'm', operation, apiVersion: 'virtset.io/v1alpha1', fieldsV1: {} })
const annotations = { 'kubectl.kubernetes.io/last-applied-configuration': '{}' }

test.each<[string, ObjectMeta, ObjectMeta]>([
  ['created', { managedFields: [entry('Update')] }, {}],
  ['created with an entry that is no object', { managedFields: [null] }, {}],
  ['without managed fields', { labels: { app: 'web' } }, { labels: { app: 'web' } }],
])('%s: has no managed fields', (_, sent, expected) => {
  expect(withoutManagedFields(vm(sent))).toEqual(vm(expected))
})

test.each<[string, ObjectMeta]>([
  ['server-side apply', { managedFields: [entry('Apply')] }],
  ['server-side apply, and another writer', { managedFields: [entry('Update'), entry('Apply')] }],
  ['client-side apply', { managedFields: [entry('Update')], annotations }],
])('%s: keeps its managed fields', (_, sent) => {
  expect(withoutManagedFields(vm(sent))).toEqual(vm(sent))
})
