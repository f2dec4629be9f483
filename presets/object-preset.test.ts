import { describe, expect, test } from 'vitest'
import { gadgetCrd, gadgetTarget, gadgets } from '../test/presets/objects.ts'
import { kindsIn } from './object-kind.ts'
import { compileObjectPreset } from './object-preset.ts'

type Given = { readonly [key: string]: unknown }

const preset = (spec: Given, kind = 'ObjectPreset') => ({
  apiVersion: 'virtset.io/v1alpha1',
  kind,
  metadata: { name: 'p', ...(kind === 'ObjectPreset' ? { namespace: 'team' } : {}) },
  spec: { target: gadgetTarget, selector: { matchLabels: { a: 'b' } }, ...spec },
})

function causesOf(value: unknown, kinds = gadgets, restricted: readonly string[] = []): readonly string[] {
  const made = compileObjectPreset(value, kinds, restricted)
  return 'quarantined' in made
    ? made.quarantined.causes.map(({ field, message, suggestion = '' }) =>
        `${field}: ${message} ${suggestion}`.trimEnd(),
      )
    : []
}

const keyedBy = (key: string) => ({ 'x-kubernetes-list-type': 'map', 'x-kubernetes-list-map-keys': [key] })

/** The definition of Gadgets with another spec. */
const crdWith = (spec: Given) => {
  const schema = { openAPIV3Schema: { type: 'object', properties: { spec } } }
  return { ...gadgetCrd, spec: { ...gadgetCrd.spec, versions: [{ name: 'v1', served: true, storage: true, schema }] } }
}

const inSpec = (spec: Given) => ({ object: { spec } })

describe('a preset for objects is refused for', () => {
  test.each<[string, Given, readonly string[]]>([
    ['an unknown field', inSpec({ sise: 1 }), ['spec.object.spec.sise: there is no such field did you mean "size"?']],
    [
      'an unknown field of an item',
      inSpec({ parts: [{ name: 'a', weigt: 1 }] }),
      ['spec.object.spec.parts[0].weigt: there is no such field did you mean "weight"?'],
    ],
    [
      'a value of another type',
      inSpec({ size: '1' }),
      ['spec.object.spec.size: must be an integer, not a string remove the quotes'],
    ],
    ['a value out of range', inSpec({ size: 10 }), ['spec.object.spec.size: must be at most 9']],
    [
      'a value that is not listed',
      inSpec({ mode: 'fast' }),
      ['spec.object.spec.mode: supported values: "Fast", "Safe" did you mean "Fast"?'],
    ],
    [
      'a text that is not a quantity',
      inSpec({ memory: '1 GB' }),
      ['spec.object.spec.memory: must be a quantity, e.g. 1Gi'],
    ],
    [
      'a field of an object without fields',
      inSpec({ empty: { a: 1 } }),
      ['spec.object.spec.empty.a: there is no such field'],
    ],
    ['an item without its key', inSpec({ parts: [{ weight: 1 }] }), ['spec.object.spec.parts[0].name: must be given']],
    [
      'an item that is there twice',
      inSpec({ parts: [{ name: 'a' }, { name: 'a' }] }),
      ['spec.object.spec.parts[1]: is the same item as spec.object.spec.parts[0]'],
    ],
    [
      'a value of a set that is there twice',
      inSpec({ words: ['a', 'a'] }),
      ['spec.object.spec.words[1]: is the same item as spec.object.spec.words[0]'],
    ],
    ['null', inSpec({ size: null }), ['spec.object.spec.size: must be an integer, not null']],
    ['a status', { object: { status: { ready: true } } }, ['spec.object.status: there is no such field']],
    ['a name', { object: { metadata: { name: 'x' } } }, ['spec.object.metadata.name: there is no such field']],
    [
      'a reserved label',
      { object: { metadata: { labels: { 'virtset.io/x': 'y' } } } },
      ['spec.object.metadata.labels[virtset.io/x]: keys of virtset.io are reserved for virtset itself'],
    ],
    [
      'a service account, however deep',
      inSpec({ free: { pods: [{ spec: { serviceAccountName: 'admin' } }] } }),
      ['spec.object.spec.free.pods[0].spec.serviceAccountName: must not be set or removed by a preset'],
    ],
    [
      'an annotation that the API server turns into a field, anywhere',
      inSpec({ free: { metadata: { annotations: { 'container.apparmor.security.beta.kubernetes.io/a': 'b' } } } }),
      [
        'spec.object.spec.free.metadata.annotations[container.apparmor.security.beta.kubernetes.io/a]: must not be set or removed by a preset',
      ],
    ],
    [
      'a finalizer that it removes',
      { strength: 'Enforce', remove: ['spec.half.finalizers'] },
      ['spec.remove[0]: must not be set or removed by a preset'],
    ],
    [
      'a reserved annotation that it removes',
      { strength: 'Enforce', remove: ['metadata.annotations[virtset.io/exclude-presets]'] },
      ['spec.remove[0]: keys of virtset.io are reserved for virtset itself'],
    ],
    [
      'all labels and annotations that it removes',
      { strength: 'Enforce', remove: ['metadata.labels', 'metadata.annotations'] },
      [
        'spec.remove[0]: would remove keys of virtset.io, which are reserved; remove single keys',
        'spec.remove[1]: would remove keys of virtset.io, which are reserved; remove single keys',
      ],
    ],
    [
      'a path that does not exist',
      { strength: 'Enforce', remove: ['spec.partz[name=a]', 'spec.parts[nam=a]'] },
      [
        'spec.remove[0]: does not exist: no field "partz" did you mean "parts"?',
        'spec.remove[1]: does not exist: no field "nam" did you mean "name"?',
      ],
    ],
    ['the whole spec', { strength: 'Enforce', remove: ['spec'] }, ['spec.remove[0]: would remove the whole spec']],
    [
      'a removal by default',
      { remove: ['spec.size'] },
      ['spec.remove: needs strength Enforce: a default only fills what is absent'],
    ],
    [
      'an expensive condition',
      {
        matchConditions: [
          {
            name: 'c',
            expression: 'object.spec.parts.all(a, object.spec.parts.all(b, object.spec.parts.all(c, true)))',
          },
        ],
      },
      [expect.stringMatching(/could take .* steps on an object with lists of 32 items/)],
    ],
    [
      'a target without a schema',
      { target: { ...gadgetTarget, kind: 'Gadgets' } },
      ['spec.target: there is no schema of Gadgets of example.com/v1 did you mean Gadget of example.com/v1?'],
    ],
    [
      'a target without a schema and without a similar kind',
      { target: { apiVersion: 'other.org/v7', kind: 'Warehouse' } },
      ['spec.target: there is no schema of Warehouse of other.org/v7'],
    ],
    [
      'a target of virtset',
      { target: { apiVersion: 'virtset.io/v1alpha1', kind: 'VirtualMachine' } },
      ['spec.target.apiVersion: must be another group: presets for VMs are of kind VirtualMachinePreset'],
    ],
    [
      'a selector that matches nothing',
      { selector: { matchLabels: { a: 'b' }, matchExpressions: [{ key: 'a', operator: 'DoesNotExist' }] } },
      ['spec.selector: contradicts itself: no labels can match it'],
    ],
    [
      'an invalid label value',
      { object: { metadata: { labels: { app: 'a b' } } } },
      [
        'spec.object.metadata.labels[app]: must be empty, or at most 63 letters, digits, `-`, `_` and `.`, beginning and ending with a letter or digit',
      ],
    ],
    [
      'a reserved annotation',
      { object: { metadata: { annotations: { 'virtset.io/x': 'y' } } } },
      ['spec.object.metadata.annotations[virtset.io/x]: keys of virtset.io are reserved for virtset itself'],
    ],
    [
      'a label that is not a text, once',
      { object: { metadata: { labels: { 'virtset.io/x': 1 } } } },
      ['spec.object.metadata.labels[virtset.io/x]: must be a string, not a number put it in quotes: "1"'],
    ],
    [
      'an item that is not an object, once',
      inSpec({ parts: ['a'] }),
      ['spec.object.spec.parts[0]: must be an object, not a string'],
    ],
    [
      'an item that is null, once',
      inSpec({ parts: [null] }),
      ['spec.object.spec.parts[0]: must be an object, not null'],
    ],
    [
      'an item without one of its keys that has no default',
      inSpec({ ports: [{ protocol: 'UDP' }] }),
      ['spec.object.spec.ports[0].number: must be given'],
    ],
    [
      'an integer that JSON.parse may have rounded',
      inSpec({ free: { list: [2 ** 60, 2 ** 53 - 1] } }),
      ['spec.object.spec.free.list[0]: must be between -2^53 and 2^53: a preset cannot set larger integers exactly'],
    ],
    [
      'the annotation for the class of an Ingress',
      inSpec({ free: { metadata: { annotations: { 'kubernetes.io/ingress.class': 'b' } } } }),
      [
        'spec.object.spec.free.metadata.annotations[kubernetes.io/ingress.class]: must not be set or removed by a preset',
      ],
    ],
    ['no target', { target: {} }, ['spec.target.apiVersion: must be given', 'spec.target.kind: must be given']],
  ])('%s', (_, spec, causes) => expect(causesOf(preset(spec))).toEqual(causes))

  test('an annotation that the API server turns into a field, unless it is of the cluster', () => {
    const annotation = 'container.apparmor.security.beta.kubernetes.io/a'
    const remove = { strength: 'Enforce', remove: [`metadata.annotations[${annotation}]`] }
    expect(causesOf(preset(remove))).toEqual(['spec.remove[0]: must not be set or removed by a preset'])
    expect(causesOf(preset(remove, 'ClusterObjectPreset'))).toEqual([])
  })

  test('the second name of the data of a Secret', () => {
    const secret = { apiVersion: 'v1', kind: 'Secret' }
    const spec = { target: secret, object: { stringData: { a: 'b' } } }
    const read = gadgets.get('Gadget of example.com/v1')
    const kinds = new Map(read === undefined ? [] : [['Secret of v1', read]])
    expect(causesOf(preset(spec), kinds)).toContain(
      'spec.object.stringData: must not be set by a preset: it would replace data of the user set data',
    )
  })

  test('the removal of what contains a service account, but not of an item of a list', () => {
    const text = { type: 'string' }
    const some = (properties: Given) => ({ type: 'object', properties })
    const job = some({ image: text, pod: some({ spec: some({ serviceAccountName: text }) }) })
    const jobs = { type: 'array', items: { ...job, required: ['image'] }, ...keyedBy('image') }
    const kinds = kindsIn(crdWith(some({ job, jobs, size: text })))
    const remove = ['spec.job', 'spec.job.pod', 'spec.job.image', 'spec.jobs[image=a]', 'spec.jobs', 'spec.size']
    const inItems = ['spec.jobs[image=a].pod', 'spec.jobs[0].pod.spec', 'spec.jobs[0].image']
    expect(causesOf(preset({ strength: 'Enforce', remove: [...remove, ...inItems] }), kinds)).toEqual([
      'spec.remove[0]: would remove pod.spec.serviceAccountName, which presets must not remove',
      'spec.remove[1]: would remove spec.serviceAccountName, which presets must not remove',
      'spec.remove[6]: would remove spec.serviceAccountName, which presets must not remove',
      'spec.remove[7]: would remove serviceAccountName, which presets must not remove',
    ])
  })

  test('more than 64 KiB, unless it is of the cluster', () => {
    const large = inSpec({ free: { text: 'x'.repeat(65_536) } })
    expect(causesOf(preset(large))).toEqual([
      'spec: must be at most 65536 bytes of JSON split it, or use a ClusterObjectPreset',
    ])
    expect(causesOf(preset(large, 'ClusterObjectPreset'))).toEqual([])
  })

  test('a kind that is not in namespaces, unless it is of the cluster', () => {
    const kinds = kindsIn({ ...gadgetCrd, spec: { ...gadgetCrd.spec, scope: 'Cluster' } })
    expect(causesOf(preset(inSpec({ size: 1 })), kinds)).toEqual([
      'spec.target.kind: is cluster-scoped: only a ClusterObjectPreset can select a Gadget',
    ])
    expect(causesOf(preset(inSpec({ size: 1 }), 'ClusterObjectPreset'), kinds)).toEqual([])
    const somewhere = { ...inSpec({ size: 1 }), namespaceSelector: {} }
    expect(causesOf(preset(somewhere, 'ClusterObjectPreset'), kinds)).toEqual([
      'spec.namespaceSelector: must be absent: a Gadget is in no namespace',
    ])
    expect(causesOf(preset(somewhere, 'ClusterObjectPreset'))).toEqual([])
  })

  test('a field that its target restricts, unless it is of the cluster', () => {
    const spec = { ...inSpec({ size: 1, mode: 'Fast' }), strength: 'Enforce', remove: ['spec.memory', 'spec.port'] }
    const restricted = ['spec.size', 'spec.memory']
    const only = 'is restricted by the PresetTarget: only a ClusterObjectPreset can set or remove it'
    expect(causesOf(preset(spec), gadgets, restricted)).toEqual([
      `spec.object.spec.size: ${only}`,
      `spec.remove[0]: ${only}`,
    ])
    expect(causesOf(preset(spec, 'ClusterObjectPreset'), gadgets, restricted)).toEqual([])
    expect(causesOf(preset(spec))).toEqual([])
  })

  test('a kind with an invalid schema', () => {
    const versions = [{ name: 'v1', schema: { openAPIV3Schema: 'any' } }]
    const kinds = kindsIn({ ...gadgetCrd, spec: { ...gadgetCrd.spec, versions } })
    expect(causesOf(preset(inSpec({})), kinds)).toEqual([
      'spec.target: the schema of Gadget of example.com/v1 cannot be used: it must be a schema',
    ])
  })

  test('a form that cannot be read, as broken', () => {
    const broken = {
      ...preset({}),
      get spec() {
        throw new RangeError('Maximum call stack size exceeded')
      },
    }
    expect(causesOf(broken)).toEqual(['spec: cannot be read: Maximum call stack size exceeded'])
  })

  test('a kind whose schema is recursive', () => {
    const document = {
      openapi: '3.0.0',
      components: {
        schemas: {
          'com.example.v1.Gadget': {
            type: 'object',
            properties: {
              metadata: { $ref: '#/components/schemas/io.k8s.ObjectMeta' },
              spec: { $ref: '#/components/schemas/Tree' },
            },
            'x-kubernetes-group-version-kind': [{ group: 'example.com', version: 'v1', kind: 'Gadget' }],
          },
          'io.k8s.ObjectMeta': { type: 'object' },
          Tree: { type: 'object', properties: { left: { $ref: '#/components/schemas/Tree' } } },
        },
      },
    }
    expect(causesOf(preset(inSpec({})), kindsIn(document))).toEqual([
      'spec.target: the schema of Gadget of example.com/v1 cannot be used: spec.left is recursive: Tree contains itself',
    ])
  })
})

describe('a preset for objects is accepted', () => {
  const warningsOf = (value: unknown): readonly string[] => {
    const made = compileObjectPreset(value, gadgets)
    if ('quarantined' in made) throw new Error(JSON.stringify(made.quarantined.causes))
    return made.warnings
  }
  const all = (scope: string) => `spec.selector: {} selects every object of its kind in ${scope}`
  const idle = 'spec: injects nothing and removes nothing'
  const everywhere = all('every namespace that it applies to')
  const label = { matchLabels: { a: 'b' } }
  const expression = { matchExpressions: [{ key: 'a', operator: 'Exists' }] }
  const size = inSpec({ size: 1 })
  const removal = { strength: 'Enforce', remove: ['spec.size'] }

  test.each<[string, string, Given, readonly string[]]>([
    ['with a label and a field', 'ObjectPreset', { selector: label, ...size }, []],
    ['with an expression and a field', 'ObjectPreset', { selector: expression, ...size }, []],
    ['with a removal', 'ObjectPreset', { selector: label, ...removal }, []],
    [
      'with a warning when it selects all of its namespace',
      'ObjectPreset',
      { selector: {}, ...size },
      [all('its namespace')],
    ],
    [
      'with a warning when it selects all of the cluster',
      'ClusterObjectPreset',
      { selector: {}, ...size },
      [everywhere],
    ],
    ['with a warning when it changes nothing', 'ObjectPreset', { selector: label }, [idle]],
    ['with both warnings', 'ObjectPreset', { selector: {} }, [all('its namespace'), idle]],
    ['with an item without the key that has a default', 'ObjectPreset', inSpec({ ports: [{ number: 80 }] }), []],
    ['with values of a set', 'ObjectPreset', inSpec({ words: ['a', 'b'] }), []],
    [
      'with labels and annotations of its own',
      'ObjectPreset',
      { object: { metadata: { labels: { app: 'web' }, annotations: { 'example.com/x': 'y' } } } },
      [],
    ],
  ])('%s', (_, kind, spec, warnings) => expect(warningsOf(preset(spec, kind))).toEqual(warnings))
})

test('nothing but a CRD or an OpenAPI document has kinds', () => {
  expect([null, [], {}, { kind: 'Pod' }].map((one) => kindsIn(one))).toEqual([
    undefined,
    undefined,
    undefined,
    undefined,
  ])
  expect([...(kindsIn({ kind: 'CustomResourceDefinition' }) ?? [])]).toEqual([])
})
