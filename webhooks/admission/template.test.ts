import { expect, test } from 'vitest'
import { admissionRequest } from '../../test/admission.ts'
import { requestForTemplate } from './template.ts'

const spec = { domain: { type: 'qemu' } }
const annotations = { 'virtset.io/exclude-presets': 'a' }
const vm = (metadata: object, of: unknown) => ({
  apiVersion: 'virtset.io/v1alpha1',
  kind: 'VirtualMachine',
  metadata,
  spec: of,
})

test.each<[string, unknown, string, object]>([
  [
    'a template',
    { spec: { template: { metadata: { annotations }, spec } } },
    'web',
    vm({ name: 'web', annotations }, spec),
  ],
  ['a template without metadata', { spec: { template: { spec } } }, 'web', vm({ name: 'web' }, spec)],
  [
    'a template with malformed metadata',
    { spec: { template: { metadata: 7, spec } } },
    'web',
    vm({ name: 'web' }, spec),
  ],
  ['an owner without name', { spec: { template: { spec } } }, '', vm({ name: 'vm' }, spec)],
  ['a template that is not an object', { spec: { template: 7 } }, 'web', vm({ name: 'web' }, undefined)],
  ['an owner without spec', {}, 'web', vm({ name: 'web' }, undefined)],
  ['an owner that is not an object', 7, 'web', vm({ name: 'web' }, undefined)],
])('the request for %s creates its VM for the same user', (_, object, name, expected) => {
  const request = admissionRequest('VirtualMachineConfig', object, {}, { name })
  expect(requestForTemplate(request)).toEqual({
    ...request,
    kind: 'VirtualMachine',
    operation: 'CREATE',
    object: expected,
    oldObject: undefined,
  })
})
