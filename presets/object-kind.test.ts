import { describe, expect, test } from 'vitest'
import { kindsIn, resourceOf } from './object-kind.ts'

type Given = { readonly [key: string]: unknown }

/** What each kind of a document is: the scope of its objects, or that its schema cannot be used. */
const scopesIn = (document: unknown): Given =>
  Object.fromEntries(
    [...(kindsIn(document) ?? [])].map(([name, read]) => {
      const one = read()
      if ('causes' in one) return [name, 'unusable']
      const { target, noun, isNamespaced } = one.kind
      return [name, `${target.apiVersion} ${noun}: ${isNamespaced ? 'namespaced' : 'cluster-scoped'}`]
    }),
  )

describe('a CustomResourceDefinition describes', () => {
  const schema = { openAPIV3Schema: { type: 'object', properties: { spec: { type: 'object' } } } }
  const version = { name: 'v1', schema }
  const crd = (spec: Given) => ({
    kind: 'CustomResourceDefinition',
    spec: { group: 'example.com', scope: 'Namespaced', names: { kind: 'Gadget' }, versions: [version], ...spec },
  })
  const v1 = { 'Gadget of example.com/v1': 'example.com/v1 Gadget: namespaced' }

  test.each<[string, Given, Given]>([
    ['its kind', {}, v1],
    [
      'a cluster-scoped kind',
      { scope: 'Cluster' },
      { 'Gadget of example.com/v1': 'example.com/v1 Gadget: cluster-scoped' },
    ],
    [
      'a kind of each version',
      { versions: [version, { name: 'v2', schema }] },
      { ...v1, 'Gadget of example.com/v2': 'example.com/v2 Gadget: namespaced' },
    ],
    ['the versions that have a name', { versions: [{ schema }, { name: 2, schema }, null, version] }, v1],
    ['nothing without names', { names: undefined }, {}],
    ['nothing without a kind in its names', { names: {} }, {}],
    ['nothing without a list of versions', { versions: { v1: version } }, {}],
  ])('%s', (_, spec, expected) => expect(scopesIn(crd(spec))).toEqual(expected))

  test('nothing without a spec', () => expect(scopesIn({ kind: 'CustomResourceDefinition' })).toEqual({}))
})

describe('an OpenAPI document describes', () => {
  const gadget = { group: 'example.com', version: 'v1', kind: 'Gadget' }
  const metadata = { $ref: '#/components/schemas/io.k8s.ObjectMeta' }
  const component = (kinds: unknown, properties: unknown = { metadata }) => ({
    type: 'object',
    properties,
    'x-kubernetes-group-version-kind': kinds,
  })
  const create = (target: unknown) => ({ post: { 'x-kubernetes-group-version-kind': target } })
  const openapi = (one: unknown, paths: unknown = {}) => ({
    openapi: '3.0.0',
    paths,
    components: { schemas: { one, 'io.k8s.ObjectMeta': { type: 'object' } } },
  })
  const namespaced = { 'Gadget of example.com/v1': 'example.com/v1 Gadget: namespaced' }
  const clusterScoped = { 'Gadget of example.com/v1': 'example.com/v1 Gadget: cluster-scoped' }
  const all = '/apis/example.com/v1/gadgets'
  const ofNamespace = '/apis/example.com/v1/namespaces/{namespace}/gadgets'

  test.each<[string, unknown, Given]>([
    ['a kind', component([gadget]), namespaced],
    [
      'a kind of the core group',
      component([{ group: '', version: 'v1', kind: 'Pod' }]),
      { 'Pod of v1': 'v1 Pod: namespaced' },
    ],
    ['a kind without a group', component([{ version: 'v1', kind: 'Pod' }]), { 'Pod of v1': 'v1 Pod: namespaced' }],
    ['no kind in a component of several, such as DeleteOptions', component([gadget, { ...gadget, version: 'v2' }]), {}],
    ['no kind in a component without one', component(undefined), {}],
    ['no kind whose group is not a text', component([{ ...gadget, group: 1 }]), {}],
    ['no kind without a version', component([{ ...gadget, version: undefined }]), {}],
    ['no kind without a name', component([{ ...gadget, kind: undefined }]), {}],
    ['no kind that is not an object', component(['Gadget']), {}],
    ['no kind whose objects have no metadata', component([gadget], { spec: {} }), {}],
    ['no kind whose metadata is of a list', component([gadget], { metadata: { $ref: '#/a/io.k8s.ListMeta' } }), {}],
    ['no kind without fields', component([gadget], null), {}],
    ['no kind in a component that is not an object', 'Gadget', {}],
  ])('%s', (_, one, expected) => expect(scopesIn(openapi(one))).toEqual(expected))

  test.each<[string, unknown, Given]>([
    ['cluster-scoped, created at a path without a namespace', { [all]: create(gadget) }, clusterScoped],
    ['namespaced, created in a namespace', { [ofNamespace]: create(gadget) }, namespaced],
    ['namespaced, created at both paths', { [all]: create(gadget), [ofNamespace]: create(gadget) }, namespaced],
    ['namespaced, only listed at a path without a namespace', { [all]: { get: create(gadget).post } }, namespaced],
    ['namespaced, when another kind is cluster-scoped', { [all]: create({ ...gadget, kind: 'Other' }) }, namespaced],
    ['namespaced, when the path has no kind', { [all]: create(undefined), '/': null }, namespaced],
    ['namespaced, in a document without paths', null, namespaced],
  ])('a kind that is %s', (_, paths, expected) =>
    expect(scopesIn(openapi(component([gadget]), paths))).toEqual(expected),
  )

  test('nothing without components', () => {
    expect(scopesIn({ openapi: '3.0.0' })).toEqual({})
    expect(scopesIn({ openapi: '3.0.0', components: {} })).toEqual({})
    expect(kindsIn({ openapi: 3 })).toBeUndefined()
  })

  test('a kind once: its schema is read when the kind is first used', () => {
    const read = kindsIn(openapi(component([gadget])))?.get('Gadget of example.com/v1')
    expect(read?.()).toBe(read?.())
  })
})

describe('the resource of a kind', () => {
  const gvk = { group: 'example.com', version: 'v1', kind: 'Gadget' }
  const create = (target: unknown) => ({ post: { 'x-kubernetes-group-version-kind': target } })
  const wanted = { apiVersion: 'example.com/v1', kind: 'Gadget' }

  test.each<[string, unknown, typeof wanted, string | undefined]>([
    ['is in the path at which it is created', { '/apis/example.com/v1/gadgets': create(gvk) }, wanted, 'gadgets'],
    [
      'is in the path of a namespace',
      { '/apis/example.com/v1/namespaces/{namespace}/gadgets': create(gvk) },
      wanted,
      'gadgets',
    ],
    [
      'is in a path of the core group',
      { '/api/v1/namespaces/{namespace}/pods': create({ group: '', version: 'v1', kind: 'Pod' }) },
      { apiVersion: 'v1', kind: 'Pod' },
      'pods',
    ],
    [
      'is not that of another kind',
      { '/apis/example.com/v1/widgets': create({ ...gvk, kind: 'Widget' }) },
      wanted,
      undefined,
    ],
    [
      'is not that of another version',
      { '/apis/example.com/v2/gadgets': create({ ...gvk, version: 'v2' }) },
      wanted,
      undefined,
    ],
    [
      'is not that of a subresource',
      { '/apis/example.com/v1/namespaces/{namespace}/gadgets/{name}/eviction': create(gvk) },
      wanted,
      undefined,
    ],
    [
      'is not where objects are only listed',
      { '/apis/example.com/v1/gadgets': { get: create(gvk).post } },
      wanted,
      undefined,
    ],
    [
      'is not in a path without a kind',
      { '/apis/example.com/v1/gadgets': create(undefined), '/x': null },
      wanted,
      undefined,
    ],
  ])('%s', (_, paths, target, resource) => expect(resourceOf({ paths }, target)).toBe(resource))

  test('is not known without paths', () => {
    expect([{}, { paths: 7 }, null].map((document) => resourceOf(document, wanted))).toEqual([
      undefined,
      undefined,
      undefined,
    ])
  })
})
