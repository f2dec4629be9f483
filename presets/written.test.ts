import { expect, test } from 'vitest'
import { kindsIn } from './object-kind.ts'
import { writtenPart } from './written.ts'

const text = { type: 'string' }
const port = {
  type: 'object',
  properties: { number: { type: 'integer' }, protocol: { ...text, default: 'TCP' }, name: text },
}
const map = { 'x-kubernetes-list-type': 'map', 'x-kubernetes-list-map-keys': ['number', 'protocol'] }
const spec = {
  type: 'object',
  properties: {
    policy: text,
    seconds: { type: 'integer' },
    nested: { type: 'object', properties: { a: text, b: text } },
    ports: { type: 'array', items: port, ...map },
    command: { type: 'array', items: text },
  },
}
const data = { type: 'object', additionalProperties: text }
const definition = {
  kind: 'CustomResourceDefinition',
  spec: {
    group: 'g.test',
    names: { kind: 'Thing' },
    scope: 'Namespaced',
    versions: [{ name: 'v1', schema: { openAPIV3Schema: { type: 'object', properties: { spec, data } } } }],
  },
}
const read = kindsIn(definition)?.get('Thing of g.test/v1')?.()
if (read === undefined || !('kind' in read)) throw new Error('the definition has no kind')
const { structure } = read.kind

/** As the API server sends it: with defaults, and an item of another webhook. */
const received = {
  apiVersion: 'g.test/v1',
  kind: 'Thing',
  spec: {
    policy: 'Always',
    seconds: 30,
    nested: { a: 'x', b: 'filled' },
    ports: [
      { number: 80, protocol: 'TCP', name: 'filled' },
      { number: 99, protocol: 'TCP', name: 'other' },
    ],
    command: ['run'],
  },
}
const manifest = {
  apiVersion: 'g.test/v1',
  spec: { policy: 'Always', nested: { a: 'x' }, ports: [{ number: 80 }], command: ['run'] },
}
const applied = {
  manager: 'kubectl',
  operation: 'Apply',
  apiVersion: 'g.test/v1',
  fieldsType: 'FieldsV1',
  fieldsV1: {
    'f:spec': {
      'f:policy': {},
      'f:nested': { 'f:a': {} },
      'f:ports': { 'k:{"number":80,"protocol":"TCP"}': { '.': {}, 'f:number': {} } },
      'f:command': {},
    },
  },
}
const annotation = (value: string) => ({ annotations: { 'kubectl.kubernetes.io/last-applied-configuration': value } })
const client = 'kubectl-client-side-apply'
/** The item of another webhook counts as the user's. */
const other = { number: 99, protocol: 'TCP', name: 'other' }
const written = (first: object) => ({ policy: 'Always', nested: { a: 'x' }, ports: [first, other], command: ['run'] })

const deep = `${'['.repeat(100_000)}${']'.repeat(100_000)}`
const deepManifest = JSON.stringify({ ...manifest, spec: { ports: [{ number: 0 }] } }).replace('0', deep)
const deepFields = {
  ...applied,
  fieldsV1: {
    'f:spec': { ...applied.fieldsV1['f:spec'], 'f:ports': { [`k:{"number":${deep},"protocol":"TCP"}`]: {} } },
  },
}

test.each<[string, object, string | undefined, object | undefined]>([
  ['server-side apply', { managedFields: [applied] }, 'kubectl', written({ number: 80 })],
  ['client-side apply', annotation(JSON.stringify(manifest)), client, written({ number: 80 })],
  ['another client', {}, 'kubectl-create', undefined],
  ['a copy of an applied object', annotation(JSON.stringify(manifest)), 'kubectl-create', undefined],
  ['a copy with managed fields', { managedFields: [applied, { ...applied, operation: 'Update' }] }, 'x', undefined],
  ['an update', { managedFields: [{ ...applied, operation: 'Update' }] }, 'x', undefined],
  ['an entry of a subresource', { managedFields: [{ ...applied, subresource: 'status' }] }, 'x', undefined],
  ['another version', { managedFields: [{ ...applied, apiVersion: 'g.test/v2' }] }, 'x', undefined],
  [
    'a manifest of another version',
    annotation(JSON.stringify({ ...manifest, apiVersion: 'g.test/v2' })),
    client,
    undefined,
  ],
  ['an annotation that is not JSON', annotation('{'), client, undefined],
  ['a manifest that nests too deep', annotation(deepManifest), client, undefined],
  ['managed fields that nest too deep', { managedFields: [deepFields] }, 'x', written(received.spec.ports[0] ?? {})],
  ['no managed fields', { managedFields: [null] }, 'x', undefined],
])('what the user wrote, by %s', (_, metadata, fieldManager, expected) => {
  const object = { ...received, metadata }
  const found = writtenPart(object, structure, { apiVersion: 'g.test/v1', fieldManager })
  expect(found).toEqual(expected === undefined ? undefined : { ...object, spec: expected })
})

test.each<[string, object, string]>([
  [
    'server-side apply',
    { managedFields: [{ ...applied, apiVersion: 'v1', fieldsV1: { 'f:stringData': { 'f:a': {} } } }] },
    'x',
  ],
  ['client-side apply', annotation(JSON.stringify({ apiVersion: 'v1', stringData: { a: 'x' } })), client],
])('what the user wrote as stringData of a Secret is in data, by %s', (_, metadata, fieldManager) => {
  const secret = { apiVersion: 'v1', kind: 'Secret', metadata, data: { a: 'eA==', filled: 'eA==' } }
  const found = writtenPart(secret, structure, { apiVersion: 'v1', fieldManager })
  expect(found).toEqual({ ...secret, data: { a: 'eA==' } })
})

test('items of a manifest with one key are about none of the object: each counts as the user’s', () => {
  const ports = [{ number: 80, name: 'a' }, { number: 80 }, { number: 81 }]
  const object = {
    ...received,
    metadata: annotation(JSON.stringify({ ...manifest, spec: { ports } })),
    spec: { ports: ports.map((port) => ({ ...port, protocol: 'TCP' })) },
  }
  const found = writtenPart(object, structure, { apiVersion: 'g.test/v1', fieldManager: client })
  expect(found).toMatchObject({ spec: { ports: [...object.spec.ports.slice(0, 2), { number: 81 }] } })
})

test('an object that was applied as empty has none of the fields that were filled in', () => {
  const managedFields = [{ ...applied, fieldsV1: { 'f:spec': { 'f:nested': {} } } }]
  const object = { ...received, metadata: { name: 't', managedFields } }
  const written = writtenPart(object, structure, { apiVersion: 'g.test/v1', fieldManager: undefined })
  expect(written).toMatchObject({ spec: { nested: {} } })
  expect(JSON.stringify(written)).not.toContain('filled')
})
