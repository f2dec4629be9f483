import { expect, test } from 'vitest'
import { cpuLabelPatch, withoutCpuLabels } from './node-labels.ts'

const [old, now] = ['cpu-model.virtset.io/EPYC', 'cpu-feature.virtset.io/aes']

test.each<[string, Parameters<typeof cpuLabelPatch>, ReturnType<typeof cpuLabelPatch>]>([
  ['nothing if all are there', [{ zone: 'a', [now]: 'true' }, { [now]: 'true' }], undefined],
  ['what is not there', [{ zone: 'a' }, { [now]: 'true' }], { [now]: 'true' }],
  ['what has another value', [{ [now]: 'false' }, { [now]: 'true' }], { [now]: 'true' }],
  ['what the node no longer has', [{ zone: 'a', [old]: 'true', [now]: 'true' }, { [now]: 'true' }], { [old]: null }],
  ['all if the node lost KVM', [{ zone: 'a', [old]: 'true', [now]: 'true' }, {}], { [old]: null, [now]: null }],
])('labels of a node to change: %s', (_, [present, wanted], patch) => {
  expect(cpuLabelPatch(present, wanted)).toEqual(patch)
})

test('a profile has only the labels of others', () => {
  expect(withoutCpuLabels({ zone: 'a', [old]: 'true', [now]: 'true' })).toEqual({ zone: 'a' })
})
