import { describe, expect, test } from 'vitest'
import { maxSteps } from '../../api/steps.ts'
import { completedByAnnotation } from '../../api/virtual-machine.ts'
import { decodeProvenance } from '../../completion/provenance.ts'
import type { ObjectTarget } from '../../inventory/objects.ts'
import { createCandidates } from '../../presets/candidates.ts'
import type { CompiledPreset } from '../../presets/compile.ts'
import { admissionRequest } from '../../test/admission.ts'
import { operationsOf } from '../../test/operations.ts'
import { team } from '../../test/presets/make.ts'
import { clusterGadgetPreset, gadgetPreset, gadgets, gadgetTarget } from '../../test/presets/objects.ts'
import type { AdmissionResult } from '../admission/request.ts'
import { completeObject } from './complete-object.ts'

type Given = { readonly [key: string]: unknown }

const read = gadgets.get('Gadget of example.com/v1')?.()
if (read === undefined || !('kind' in read)) throw new Error('the definition has no kind')
const { kind } = read

const entryWith = (presets: readonly CompiledPreset[]): ObjectTarget => ({
  target: {
    apiVersion: 'virtset.io/v1alpha1',
    kind: 'PresetTarget',
    metadata: { name: 'gadgets.example.com' },
    spec: { ...gadgetTarget, failurePolicy: 'Fail' },
  },
  kind,
  resource: 'gadgets',
  candidates: createCandidates(presets),
  quarantined: new Map(),
})

function complete(object: unknown, presets: readonly CompiledPreset[], options: Given = {}): AdmissionResult {
  const request = admissionRequest('Gadget', object, undefined, { namespace: 'team', request: { options } })
  return completeObject(request, entryWith(presets), team, new Set())
}

const gadget = (spec: Given, annotations?: Given) => ({
  ...gadgetTarget,
  metadata: { name: 'g', ...(annotations === undefined ? {} : { annotations }) },
  spec,
})

/** The paths that a patch changes. */
const changesOf = (result: AdmissionResult) => operationsOf(result).map(({ op, path }) => `${op} ${path}`)

/** The text of the annotation that a completion writes. */
function annotationOf(result: AdmissionResult): string {
  const added = operationsOf(result).find(({ path }) => path.startsWith('/metadata/annotations'))
  const value: unknown = added !== undefined && 'value' in added ? added.value : undefined
  return typeof value === 'string' ? value : String((value as Given)[completedByAnnotation])
}
const originsIn = (text: string) => [...(decodeProvenance(text)?.origins.keys() ?? [])]

const annotationPath = '/metadata/annotations/virtset.io~1completed-by'
const sizing = gadgetPreset('p', { size: 2 })

describe('an object', () => {
  test('gets the fields of presets, and an annotation with their origins', () => {
    const result = complete(gadget({ mode: 'Fast' }), [sizing])
    expect(changesOf(result)).toEqual(['add /metadata/annotations', 'add /spec/size'])
    expect(originsIn(annotationOf(result))).toEqual(['spec.size'])
    expect(result.audit).toEqual({ presets: expect.stringContaining('team/p') })
  })

  test.each<[string, unknown]>([
    ['that presets do not change', gadget({ size: 2 })],
    ['that presets do not change keeps its own annotations', gadget({ size: 2 }, { a: 'b' })],
    ['of an unexpected form is left to the API server', 7],
    ['without metadata is left to the API server', { ...gadgetTarget, spec: {} }],
  ])('%s', (_, object) => {
    const result = complete(object, [sizing])
    expect(result).toMatchObject({ allowed: true })
    expect(changesOf(result)).toEqual([])
  })

  test('on which presets disagree is refused, with what was considered', () => {
    const result = complete(gadget({}), [sizing, gadgetPreset('q', { size: 3 })])
    expect(result).toMatchObject({ allowed: false, causes: [{ field: 'spec.size' }] })
    expect(result.audit).toEqual({ presets: expect.stringContaining('team/q') })
  })

  test('whose user wrote less than what arrived gets defaults for the rest', () => {
    const manifest = JSON.stringify({ ...gadgetTarget, spec: { mode: 'Fast' } })
    const object = gadget({ mode: 'Fast', size: 1 }, { 'kubectl.kubernetes.io/last-applied-configuration': manifest })
    const sentBy = (fieldManager: unknown) => changesOf(complete(object, [sizing], { fieldManager }))
    expect(sentBy('kubectl-client-side-apply')).toEqual(['replace /spec/size', `add ${annotationPath}`])
    // Records only that the preset lost to the user.
    const recorded = [`add ${annotationPath}`]
    expect([sentBy('kubectl-create'), sentBy(undefined)]).toEqual([recorded, recorded])
  })

  const long = 2 ** 60
  test('keeps integers of 64 bits as they were sent, however much presets set beside them', () => {
    const parts = Array.from({ length: 20 }, (_, index) => ({ name: `${index}`, weight: long }))
    const changes = changesOf(complete(gadget({ parts }), [gadgetPreset('t', { parts: [{ name: '*', tags: ['x'] }] })]))
    expect(changes.filter((change) => /^add \/spec\/parts\/\d+\/tags$/.test(change))).toHaveLength(20)
    expect(changes).toHaveLength(21)
  })

  test('keeps them in items of which presets replace something', () => {
    const preset = gadgetPreset('t', { parts: [{ name: 'a', options: { x: '2' } }] }, { strength: 'Enforce' })
    const object = gadget({ parts: [{ name: 'a', weight: long, options: { x: '1' } }] })
    expect(changesOf(complete(object, [preset]))).toEqual([
      'add /metadata/annotations',
      'replace /spec/parts/0/options/x',
    ])
  })

  const removing = { strength: 'Enforce', remove: ['spec.parts[name=a]'] } as const
  const [one, other] = [2 ** 53, 2 ** 53 + 2]
  test.each<[string, Given, readonly unknown[]]>([
    ['from its list an item is removed', {}, [{ name: 'a' }, { name: 'b', weight: long }]],
    [
      'an item takes the place of another one',
      { object: { spec: { parts: [{ name: 'k' }] } } },
      [
        { name: 'a', weight: one },
        { name: 'b', weight: one },
        { name: 'c', weight: other },
      ],
    ],
  ])('is refused if an integer of 64 bits would be written again, as it may be rounded: %s', (_, more, parts) => {
    const { object = {} } = more as { object?: { spec?: Given } }
    const preset = gadgetPreset('r', object.spec, removing)
    expect(complete(gadget({ parts }), [preset])).toMatchObject({
      allowed: false,
      causes: [{ rule: 'long-integer', field: expect.stringContaining('spec.parts') }],
    })
  })

  test('that takes too much work is refused', () => {
    const steps = Array.from({ length: maxSteps + 1 }, () => '')
    expect(complete(gadget({ steps }), [sizing])).toMatchObject({
      allowed: false,
      causes: [
        {
          rule: 'too-much-work',
          field: 'spec',
          message: expect.stringContaining('steps to complete'),
          suggestion: 'shorten its lists, or those of the 1 presets for Gadget of example.com/v1',
        },
      ],
    })
  })

  test('whose annotation would take too much work is refused: lists of other kinds have no limit', () => {
    const heavy = gadgetPreset('w', { parts: [{ name: '*', weight: 1 }] }, { strength: 'Enforce' })
    const parts = (count: number) =>
      gadget({ parts: Array.from({ length: count }, (_, index) => ({ name: `${index}` })) })
    expect([2000, 20_000].map((count) => complete(parts(count), [heavy]))).toMatchObject([
      { allowed: true },
      { allowed: false, causes: [{ rule: 'too-much-work' }] },
    ])
  })

  test('in each of whose items a preset sets much is refused before that is done', () => {
    const tags = Array.from({ length: 1000 }, (_, index) => `${index}`)
    const large = gadgetPreset('l', { parts: [{ name: '*', tags }] })
    const parts = (count: number) =>
      gadget({ parts: Array.from({ length: count }, (_, index) => ({ name: `${index}` })) })
    expect([10, 1000].map((count) => complete(parts(count), [large]))).toMatchObject([
      { allowed: true },
      { allowed: false, causes: [{ rule: 'too-much-work' }] },
    ])
  })

  test('in each of whose items a preset sets a long key is refused, before each has a path', () => {
    const large = gadgetPreset('l', { parts: [{ name: '*', options: { ['x'.repeat(60_000)]: '' } }] })
    const parts = Array.from({ length: 2000 }, (_, index) => ({ name: `${index}` }))
    expect(complete(gadget({ parts }), [large])).toMatchObject({ causes: [{ rule: 'too-much-work' }] })
  })

  test('that would get more than 1 MiB only with the escapes of JSON is refused', () => {
    const large = gadgetPreset('l', { parts: [{ name: '*', options: { text: '\u0001'.repeat(10_000) } }] })
    const parts = Array.from({ length: 100 }, (_, index) => ({ name: `${index}` }))
    expect(complete(gadget({ parts }), [large])).toMatchObject({
      causes: [{ message: expect.stringContaining('would get more than 1 MiB') }],
    })
  })

  test.each([
    [
      'is written again because presets add much to it',
      {},
      gadgetPreset('o', { options: Object.fromEntries('abcdefghi'.split('').map((key) => [key, 'x'])) }),
    ],
    [
      'loses an item',
      { words: ['gone', 'x'.repeat(1_100_000)] },
      gadgetPreset('o', undefined, { strength: 'Enforce', remove: ['spec.words[0]'] }),
    ],
  ])('that is large by itself is not refused if it %s', (_, more, one) => {
    const text = '"\n'.repeat(350_000)
    expect(complete(gadget({ options: { text }, ...more }), [one])).toMatchObject({ allowed: true })
  })

  test('that would get more than 1 MiB from presets is refused', () => {
    const text = 'x'.repeat(1_100_000)
    const large = clusterGadgetPreset('l', { options: { text } }, { strength: 'Enforce' })
    expect(complete(gadget({}), [large])).toMatchObject({
      allowed: false,
      causes: [{ message: expect.stringContaining('more than 1 MiB from the presets for Gadget of example.com/v1') }],
    })
  })
})

describe('the annotation of an earlier call for the same object', () => {
  const removing = gadgetPreset('r', undefined, { strength: 'Enforce', remove: ['spec.port'] })
  const overriding = gadgetPreset('o', { mode: 'Safe' }, { strength: 'Enforce' })
  const all = [sizing, removing, overriding]
  const first = complete(gadget({ mode: 'Fast', port: 80 }), all)
  const claim = annotationOf(first)
  const again = (presets: readonly CompiledPreset[], text = claim) =>
    complete(gadget({ mode: 'Safe', size: 2 }, { [completedByAnnotation]: text }), presets)

  test('remains while its presets take part', () => {
    expect(originsIn(claim).toSorted()).toEqual(['spec.mode', 'spec.size'])
    expect(changesOf(again(all))).toEqual([])
  })

  test('loses what presets have set, overridden and removed that take part no more', () => {
    const result = again([sizing])
    expect(changesOf(result)).toEqual([`replace ${annotationPath}`])
    const left = decodeProvenance(annotationOf(result))
    expect([left?.origins.size, left?.overridden.size, left?.removed.size]).toEqual([1, 0, 0])
  })

  test.each([
    ['is not valid', '{'],
    ['is valid', claim],
  ])('is removed if no preset takes part, and it %s', (_, text) => {
    expect(changesOf(again([], text))).toEqual(['remove /metadata/annotations'])
  })

  test('gets the origins of this call, too', () => {
    const result = again([...all, gadgetPreset('later', { memory: '1Gi' })])
    expect(changesOf(result)).toEqual([`replace ${annotationPath}`, 'add /spec/memory'])
    expect(originsIn(annotationOf(result)).toSorted()).toEqual(['spec.memory', 'spec.mode', 'spec.size'])
  })

  test('records what presets replace and remove in this call, too', () => {
    const earlier = annotationOf(complete(gadget({ mode: 'Fast' }), [sizing]))
    // Another webhook has added a field since.
    const changed = gadget({ mode: 'Fast', size: 2, port: 80 }, { [completedByAnnotation]: earlier })
    const recorded = decodeProvenance(annotationOf(complete(changed, all)))
    expect([[...(recorded?.overridden.keys() ?? [])], [...(recorded?.removed.keys() ?? [])]]).toEqual([
      ['spec.mode'],
      ['spec.port'],
    ])
    expect([...(recorded?.origins.keys() ?? [])].toSorted()).toEqual(['spec.mode', 'spec.size'])
  })
})
