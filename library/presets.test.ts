import { describe, expect, test } from 'vitest'
import { gadget, gadgetCrd, gadgetTarget } from '../test/presets/objects.ts'
import { createPresets, kindsIn } from './presets.ts'

const read = kindsIn(gadgetCrd)?.get('Gadget of example.com/v1')?.()
if (read === undefined || !('kind' in read)) throw new Error('no kind')
const { kind } = read

const preset = (name: string, spec: object, more: object = {}) => ({
  apiVersion: 'virtset.io/v1alpha1',
  kind: 'ObjectPreset',
  metadata: { name, namespace: 'team' },
  spec: { target: gadgetTarget, selector: {}, object: { spec }, ...more },
})
const team = { namespace: { name: 'team' } }
const texts = (causes: readonly { readonly field: string; readonly message: string }[]) =>
  causes.map(({ field, message }) => `${field}: ${message}`)

describe('presets of a kind', () => {
  test('complete an object and report what set each field', () => {
    const presets = createPresets(kind)
    expect(presets.set(preset('a', { size: 2 })).causes).toEqual([])
    const { object, causes, origins } = presets.complete(gadget({ mode: 'Fast' }), team)
    expect([object['spec'], causes]).toEqual([{ mode: 'Fast', size: 2 }, []])
    expect(origins.get('spec.size')).toMatchObject({ by: 'preset', namespace: 'team', name: 'a' })
  })

  test('refuse an object on which they disagree, until one is deleted', () => {
    const presets = createPresets(kind)
    presets.set(preset('a', { size: 2 }))
    expect(presets.set(preset('b', { size: 3 })).warnings).toEqual(
      expect.arrayContaining([expect.stringContaining('disagrees with preset "team/a" on spec.size')]),
    )
    expect(texts(presets.complete(gadget({}), team).causes)).toEqual([expect.stringMatching(/^spec.size: .*disagree/)])
    presets.delete('team/a')
    expect(presets.complete(gadget({}), team).object['spec']).toEqual({ size: 3 })
  })

  test('are not applied if they are broken, restricted or outside their scope', () => {
    const presets = createPresets(kind, { restricted: ['spec.mode'], protectedNamespaces: ['own'] })
    presets.set(preset('a', { size: 2 }))
    expect(texts(presets.set(preset('a', { sise: 2 })).causes)).toEqual([
      expect.stringContaining('spec.object.spec.sise: there is no such field'),
    ])
    expect(texts(presets.set(preset('b', { mode: 'Safe' })).causes)).toEqual([expect.stringContaining('is restricted')])
    const { object, warnings } = presets.complete(gadget({}), team)
    expect([object['spec'], warnings.length]).toEqual([{}, 2])
    presets.set({ ...preset('c', { size: 4 }), kind: 'ClusterObjectPreset', metadata: { name: 'c' } })
    expect(presets.complete(gadget({}), { namespace: { name: 'own' } }).object['spec']).toEqual({})
    expect(presets.complete(gadget({}), { namespace: { name: 'other' } }).object['spec']).toEqual({ size: 4 })
  })

  test('refuse an object with thousands of levels', () => {
    const presets = createPresets(kind)
    presets.set(preset('a', { size: 2 }))
    let deep: object = {}
    for (let level = 0; level < 5000; level++) deep = { deep }
    expect(texts(presets.complete(gadget({ deep }), team).causes)).toEqual([
      expect.stringMatching(/^spec: must not nest deeper/),
    ])
  })

  test('see the request: a value that the API server has filled in is not the user’s', () => {
    const presets = createPresets(kind)
    presets.set(preset('a', { size: 2 }))
    const managedFields = [
      { operation: 'Apply', apiVersion: 'example.com/v1', fieldsV1: { 'f:spec': { 'f:mode': {} } } },
    ]
    const object = gadget({ mode: 'Fast', size: 1 }, { managedFields })
    expect(presets.complete(object, team).object['spec']).toEqual({ mode: 'Fast', size: 2 })
    presets.set(preset('b', { memory: '1Gi' }, { matchConditions: [{ name: 'u', expression: 'request.name == "x"' }] }))
    expect(presets.complete(object, { ...team, request: { name: 'x' } }).object['spec']).toMatchObject({
      memory: '1Gi',
    })
  })

  test.each([
    ['no object', 7, 'metadata: '],
    ['a label that is not a text', gadget({}, { labels: { a: 1 } }), 'metadata.labels'],
    [
      'an object that takes too long',
      gadget({ steps: Array.from({ length: 200_001 }, () => 'x') }),
      'spec: takes more',
    ],
  ])('refuse %s', (_, object, start) => {
    expect(texts(createPresets(kind).complete(object, team).causes)).toEqual([expect.stringContaining(start)])
  })
})
