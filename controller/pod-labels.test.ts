import { describe, expect, it } from 'vitest'
import type { ObjectMeta } from '../api/object.ts'
import { labelsSizeCauses } from '../completion/labels-size.ts'
import { parserOf } from '../runtime/partial-json.ts'
import { copiedLabels, isRelabelled, labelledPods, labelsAnnotation, relabelling } from './pod-labels.ts'

interface Labels {
  readonly [key: string]: string
}

const own = { 'virtset.io/vm-uid': 'u', 'virtset.io/vm-name': 'vm1' }
const podWith = (labels: Labels, copied: object | string | undefined) => ({
  labels: { ...own, ...labels },
  annotations:
    copied === undefined ? {} : { [labelsAnnotation]: typeof copied === 'string' ? copied : JSON.stringify(copied) },
})

/** What the pod has afterwards, without its own labels, and what is recorded. */
function after(vm: Labels, pod: ReturnType<typeof podWith>) {
  const changed = relabelling({ labels: vm }, pod)
  if (changed === undefined) return undefined
  const labels = Object.entries({ ...pod.labels, ...changed.labels }).filter(
    ([key, value]) => value !== null && !Object.hasOwn(own, key),
  )
  return [Object.fromEntries(labels), JSON.parse(changed.annotations[labelsAnnotation] ?? '')]
}

describe('labels of a running VM', () => {
  it.each<[string, Labels, Labels, object | string | undefined, unknown]>([
    ['unchanged', { app: 'a' }, { app: 'a' }, { app: 'a' }, undefined],
    ['in another order', { a: '1', b: '2' }, { a: '1', b: '2' }, { b: '2', a: '1' }, undefined],
    [
      'added',
      { app: 'a', b: '1' },
      { app: 'a' },
      { app: 'a' },
      [
        { app: 'a', b: '1' },
        { app: 'a', b: '1' },
      ],
    ],
    ['the first', { b: '1' }, {}, {}, [{ b: '1' }, { b: '1' }]],
    ['changed', { app: 'b' }, { app: 'a' }, { app: 'a' }, [{ app: 'b' }, { app: 'b' }]],
    ['removed', {}, { app: 'a' }, { app: 'a' }, [{}, {}]],
    ['one in the place of another', { b: '1' }, { a: '1' }, { a: '1' }, [{ b: '1' }, { b: '1' }]],
    [
      'one in the place of another, beside one that stays',
      { b: '1', c: '1' },
      { a: '1', c: '1' },
      { a: '1', c: '1' },
      [
        { b: '1', c: '1' },
        { b: '1', c: '1' },
      ],
    ],
    ['of any name', { constructor: 'b' }, {}, {}, [{ constructor: 'b' }, { constructor: 'b' }]],
    ['with an empty value', { a: '' }, {}, {}, [{ a: '' }, { a: '' }]],
    [
      'not one that another client has set on the pod',
      { a: '1', quarantine: 'no' },
      { quarantine: 'yes' },
      {},
      [
        { a: '1', quarantine: 'yes' },
        { a: '1', quarantine: null },
      ],
    ],
    ['nor again', { a: '2' }, { a: '1' }, { a: null }, undefined],
    ['nor one that is removed from the VM later', {}, { a: '1' }, { a: null }, undefined],
    ['nor one that another client has set to the same value', { a: '1' }, { a: '1' }, {}, [{ a: '1' }, { a: null }]],
    ['nor one that another client has changed', { a: '2' }, { a: 'x' }, { a: '1' }, [{ a: 'x' }, { a: null }]],
    ['nor one that another client has removed', { a: '2' }, {}, { a: '1' }, [{}, { a: null }]],
    ['which is not forgotten with the label of the VM', { b: '1' }, {}, { a: '1' }, [{ b: '1' }, { b: '1', a: null }]],
    ['nor later', { b: '2' }, { b: '1' }, { a: null, b: '1' }, [{ b: '2' }, { b: '2', a: null }]],
    ['nor one that comes back', { a: '2', b: '1' }, { b: '1' }, { a: null, b: '1' }, undefined],
    ['nor a change that only another client has made', { a: '1' }, { a: 'x', b: '2' }, { a: '1' }, undefined],
    [
      'nor with the prefix of virtset',
      { 'virtset.io/vm-uid': 'other', 'virtset.io/attached-to': 'other', 'cpu-model.virtset.io/x': '', a: '1' },
      {},
      {},
      [{ a: '1' }, { a: '1' }],
    ],
    ['nor to a pod of an earlier version', { a: '2' }, { a: '1' }, undefined, undefined],
    ['nor to a pod with an unknown record', { a: '2' }, { a: '1' }, '{', undefined],
  ])('%s', (_, vm, labels, copied, expected) => {
    const pod = podWith(labels, copied)
    expect(after(vm, pod)).toEqual(expected)
    expect(isRelabelled({ labels: vm }, pod)).toBe(expected !== undefined)
  })

  it('are not changed on a pod with more than are read, of which only the size is', () => {
    const many = Object.fromEntries(Array.from({ length: 10_000 }, (_, index) => [`l${index}`, '']))
    const metadata = { ...podWith({ a: '1', ...many }, { a: '1' }), name: 'p', uid: 'u', resourceVersion: '1' }
    const found = read({ metadata })
    expect(found.labels).toEqual({ '#': { bytes: JSON.stringify(metadata.labels).length, values: 10_004 } })
    expect(relabelling({ labels: { a: '2' } }, found)).toBeUndefined()
  })

  it('are changed on a pod with as many as a VM can have, read without what nobody copied', () => {
    const own = Object.fromEntries(Array.from({ length: 250 }, (_, index) => [`l${index}`, 'x'.repeat(60)]))
    expect(labelsSizeCauses(own)).toEqual([])
    const given = podWith({ a: '1', ...own }, own)
    const metadata = { ...given, annotations: { ...given.annotations, other: 'x' }, finalizers: ['other'] }
    const found = read({ metadata: { ...metadata, name: 'p', uid: 'u', resourceVersion: '1' } })
    expect(found).toEqual({ ...given, name: 'p', uid: 'u', resourceVersion: '1' })
    const changed = { ...own, l0: 'other' }
    expect(relabelling({ labels: changed }, found)).toEqual(relabelling({ labels: changed }, given))
    expect(relabelling({ labels: changed }, found)?.labels).toEqual({ l0: 'other' })
  })

  it('are recorded on a new pod, without those of virtset', () => {
    const labels = { app: 'a', 'virtset.io/attached-to': 'other' }
    expect(copiedLabels({ labels })).toEqual({ [labelsAnnotation]: '{"app":"a"}' })
    expect(copiedLabels({})).toEqual({ [labelsAnnotation]: '{}' })
  })

  it('are not copied if they are too long to be recorded', () => {
    const labels = Object.fromEntries(Array.from({ length: 1000 }, (_, index) => [`a${index}`, 'x'.repeat(63)]))
    expect(copiedLabels({ labels })).toEqual({})
    expect(isRelabelled({ labels }, podWith({}, {}))).toBe(false)
    expect(relabelling({ labels }, podWith({}, {}))).toBeUndefined()
  })
})

function read(pod: object): ObjectMeta {
  const found = parserOf(labelledPods.read)(Buffer.from(JSON.stringify(pod)))
  if (!labelledPods.accepts(found)) throw new Error('it has no identity')
  return found.metadata
}
