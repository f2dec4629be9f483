import type { ObjectPresetSpec } from '../../api/object-preset.ts'
import { createCandidates } from '../../presets/candidates.ts'
import type { CompiledPreset } from '../../presets/compile.ts'
import { injectInto, type Injected } from '../../presets/inject.ts'
import type { Subject } from '../../presets/kind.ts'
import { kindsIn, type Kinds, type ObjectKind } from '../../presets/object-kind.ts'
import { compileObjectPreset } from '../../presets/object-preset.ts'
import { team } from './make.ts'

type Given = { readonly [key: string]: unknown }

const text = { type: 'string' }
const named = (properties: Given) => ({
  type: 'array',
  items: { type: 'object', properties: { name: text, ...properties }, required: ['name'] },
  'x-kubernetes-list-type': 'map',
  'x-kubernetes-list-map-keys': ['name'],
})

/** The spec of a kind with one of each kind of field that merging distinguishes. */
const gadgetSpec = {
  type: 'object',
  properties: {
    size: { type: 'integer', minimum: 1, maximum: 9 },
    mode: { type: 'string', enum: ['Fast', 'Safe'] },
    memory: { anyOf: [{ type: 'integer' }, text], 'x-kubernetes-int-or-string': true, format: 'quantity' },
    port: { 'x-kubernetes-int-or-string': true, anyOf: [{ type: 'integer' }, text] },
    options: { type: 'object', additionalProperties: text },
    place: { type: 'object', properties: { zone: text, rack: text }, 'x-kubernetes-map-type': 'atomic' },
    free: { type: 'object', 'x-kubernetes-preserve-unknown-fields': true },
    half: { type: 'object', properties: { known: text }, 'x-kubernetes-preserve-unknown-fields': true },
    empty: { type: 'object' },
    words: { type: 'array', items: text, 'x-kubernetes-list-type': 'set' },
    steps: { type: 'array', items: text },
    parts: named({
      weight: { type: 'integer' },
      tags: { type: 'array', items: text, 'x-kubernetes-list-type': 'set' },
      options: { type: 'object', additionalProperties: text },
    }),
    ports: {
      type: 'array',
      items: {
        type: 'object',
        properties: { number: { type: 'integer' }, protocol: { ...text, default: 'TCP' }, title: text },
        required: ['number'],
      },
      'x-kubernetes-list-type': 'map',
      'x-kubernetes-list-map-keys': ['number', 'protocol'],
    },
    source: {
      type: 'object',
      properties: {
        git: { type: 'object', properties: { url: text, branch: text } },
        web: { type: 'object', properties: { url: text } },
      },
      oneOf: [{ required: ['git'] }, { required: ['web'] }],
    },
    template: { type: 'object', 'x-kubernetes-embedded-resource': true, 'x-kubernetes-preserve-unknown-fields': true },
  },
}

/** A CRD as `kubectl get crd -o json` prints it. */
export const gadgetCrd = {
  apiVersion: 'apiextensions.k8s.io/v1',
  kind: 'CustomResourceDefinition',
  metadata: { name: 'gadgets.example.com' },
  spec: {
    group: 'example.com',
    scope: 'Namespaced',
    names: { kind: 'Gadget', plural: 'gadgets', singular: 'gadget' },
    versions: [
      {
        name: 'v1',
        served: true,
        storage: true,
        schema: {
          openAPIV3Schema: {
            type: 'object',
            properties: { spec: gadgetSpec, status: { type: 'object', properties: { ready: { type: 'boolean' } } } },
          },
        },
      },
    ],
  },
}

export const gadgetTarget = { apiVersion: 'example.com/v1', kind: 'Gadget' }

/** The OpenAPI v3 document of the group of Gadgets, as the API server serves it. */
export const gadgetOpenApi = (spec: unknown = gadgetSpec, collection = 'namespaces/{namespace}/gadgets') => {
  const gvk = { group: 'example.com', version: 'v1', kind: 'Gadget' }
  return {
    openapi: '3.0.0',
    paths: {
      [`/apis/example.com/v1/${collection}`]: { post: { 'x-kubernetes-group-version-kind': gvk } },
      [`/apis/example.com/v1/${collection}/{name}`]: { get: { 'x-kubernetes-group-version-kind': gvk } },
    },
    components: {
      schemas: {
        'com.example.v1.Gadget': {
          type: 'object',
          properties: { metadata: { $ref: '#/components/schemas/io.k8s.meta.v1.ObjectMeta' }, spec },
          'x-kubernetes-group-version-kind': [gvk],
        },
        'io.k8s.meta.v1.ObjectMeta': { type: 'object' },
      },
    },
  }
}

const known = (document: unknown): Kinds => {
  const kinds = kindsIn(document)
  if (kinds === undefined) throw new Error('the document describes no kind')
  return kinds
}

export const gadgets = known(gadgetCrd)

/** Read again each time, so that each test also covers the reading of the schema. */
function gadgetKind(): ObjectKind {
  const read = known(gadgetCrd).get('Gadget of example.com/v1')?.()
  if (read === undefined || !('kind' in read)) throw new Error(`no kind: ${JSON.stringify(read)}`)
  return read.kind
}

export const gadget = (spec: Given, metadata: Given = {}): Subject =>
  ({ ...gadgetTarget, metadata: { name: 'g', namespace: 'team', ...metadata }, spec }) as Subject

type SpecOf = Partial<Omit<ObjectPresetSpec, 'object'>> & { readonly metadata?: Given }

/** A preset of namespace `team` that selects every Gadget, unless `more` changes that. */
export const gadgetPreset = (name: string, spec: Given | undefined, more: SpecOf = {}): CompiledPreset =>
  compiled('ObjectPreset', { name, namespace: 'team' }, spec, more)

export const clusterGadgetPreset = (name: string, spec: Given | undefined, more: SpecOf = {}): CompiledPreset =>
  compiled('ClusterObjectPreset', { name }, spec, more)

function compiled(kind: string, metadata: Given, spec: Given | undefined, { metadata: labels, ...more }: SpecOf) {
  const object = { ...(labels === undefined ? {} : { metadata: labels }), ...(spec === undefined ? {} : { spec }) }
  const made = compileObjectPreset(
    {
      apiVersion: 'virtset.io/v1alpha1',
      kind,
      metadata,
      spec: { target: gadgetTarget, selector: {}, object, ...more },
    },
    gadgets,
  )
  if ('quarantined' in made) throw new Error(JSON.stringify(made.quarantined.causes))
  return made.preset
}

export const injectGadget = (object: Subject, presets: readonly CompiledPreset[]): Injected =>
  injectInto(object, gadgetKind(), { presets: createCandidates(presets), namespace: team })

/** The resulting spec, or the causes if there are any. */
export const specOf = ({ object, causes }: Injected): unknown =>
  causes.length > 0
    ? causes.map(({ field, message }) => `${field}: ${message}`)
    : (object as unknown as { readonly spec?: unknown }).spec
