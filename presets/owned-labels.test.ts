import { expect, test } from 'vitest'
import { clusterGadgetPreset, gadget, gadgetPreset, injectGadget } from '../test/presets/objects.ts'
import type { CompiledPreset } from './compile.ts'
import { originLabel } from './source.ts'

type Given = { readonly [key: string]: unknown }

const owner = { apiVersion: 'apps/v1', kind: 'ReplicaSet', name: 'web', uid: 'u' }
const owned = (labels: Given) => gadget({}, { labels, ownerReferences: [{ ...owner, controller: true }] })
const enforcing = (labels: Given): CompiledPreset =>
  gadgetPreset('p', undefined, { strength: 'Enforce', metadata: { labels } })
const removing = (...remove: string[]): CompiledPreset => gadgetPreset('r', undefined, { strength: 'Enforce', remove })
const leaves = (path: string, id = 'team/p') =>
  `preset "${id}" leaves ${path}: a controller finds the object by its labels`

const web = { app: 'web' }

test.each<[string, ReturnType<typeof gadget>, readonly CompiledPreset[], Given, readonly string[]]>([
  [
    'keeps a label that presets enforce',
    owned(web),
    [enforcing({ app: 'other' })],
    web,
    [leaves('metadata.labels.app')],
  ],
  [
    'keeps one that the cluster enforces',
    owned(web),
    [clusterGadgetPreset('c', undefined, { strength: 'Enforce', metadata: { labels: { app: 'other' } } })],
    web,
    [leaves('metadata.labels.app', 'c')],
  ],
  ['gets other labels', owned(web), [enforcing({ app: 'web', tier: 'gold' })], { app: 'web', tier: 'gold' }, []],
  [
    'keeps a label that presets remove',
    owned({ 'example.com/app': 'web', app: 'a' }),
    [removing('metadata.labels[example.com/app]', 'metadata.labels.app', 'metadata.labels.other')],
    { 'example.com/app': 'web', app: 'a' },
    [leaves('metadata.labels.app', 'team/r'), leaves('metadata.labels[example.com/app]', 'team/r')],
  ],
  [
    'keeps a label on which presets disagree',
    owned(web),
    [
      enforcing({ app: 'b' }),
      gadgetPreset('q', undefined, { strength: 'Enforce', metadata: { labels: { app: 'c' } } }),
    ],
    web,
    [leaves('metadata.labels.app'), leaves('metadata.labels.app', 'team/q')],
  ],
])('an object with a controller %s', (_, object, presets, labels, warnings) => {
  const made = injectGadget(object, presets)
  expect([made.object.metadata.labels, made.causes, made.warnings]).toEqual([labels, [], warnings])
})

test('an object with an owner that is not its controller gets the labels that presets enforce', () => {
  const made = injectGadget(gadget({}, { labels: web, ownerReferences: [owner] }), [enforcing({ app: 'other' })])
  expect(made.object.metadata.labels).toEqual({ app: 'other' })
  expect([...made.origins].map(([path, origin]) => [path, originLabel(origin)])).toEqual([
    ['metadata.labels.app', 'team/p'],
  ])
})

test.each([7, [7], [null], {}])('an owner of the form %j is none', (ownerReferences) => {
  const made = injectGadget(gadget({}, { labels: web, ownerReferences }), [enforcing({ app: 'other' })])
  expect(made.object.metadata.labels).toEqual({ app: 'other' })
})

test('a preset that selects what another would have set does not apply', () => {
  const late = clusterGadgetPreset(
    'late',
    { size: 9 },
    { strength: 'Enforce', selector: { matchLabels: { app: 'other' } } },
  )
  const made = injectGadget(owned(web), [enforcing({ app: 'other' }), late])
  expect(made.participants.map(({ preset }) => preset.id)).toEqual(['team/p'])
})
