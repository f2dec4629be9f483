import { expect, test } from 'vitest'
import { createCandidates } from '../presets/candidates.ts'
import { compilePreset } from '../presets/compile.ts'
import { bundledCapabilities as capabilities } from './capabilities.ts'
import { complete } from './complete.ts'
import { labelsSizeCauses } from './labels-size.ts'

/** Labels of this many bytes, of 128 each. */
const labelsOf = (bytes: number): Record<string, string> => {
  const whole = Array.from({ length: Math.floor(bytes / 128) }, (_, index) => [
    `k${index}`.padEnd(64, 'x'),
    'v'.repeat(64),
  ])
  const rest = bytes % 128
  return Object.fromEntries([...whole, ...(rest === 0 ? [] : [['r'.repeat(rest), '']])])
}

const limit = 16 * 1024

test.each<[string, number, number | undefined, readonly number[]]>([
  ['of the maximum size are accepted', limit, undefined, []],
  ['that are one byte larger are refused', limit + 1, undefined, [limit + 1]],
  ['that grow beyond it are refused', limit + 1, limit, [limit + 1]],
  ['of an earlier version may remain', 2 * limit, 2 * limit, []],
  ['of an earlier version may shrink', limit + 1, 2 * limit, []],
  ['of an earlier version must not grow', 2 * limit + 1, 2 * limit, [2 * limit + 1]],
])('labels %s', (_, sent, stored, expected) => {
  const causes = labelsSizeCauses(labelsOf(sent), stored === undefined ? undefined : labelsOf(stored))
  expect(causes.map(({ value }) => value)).toEqual(expected)
})

test('the cause states the limit', () => {
  expect(labelsSizeCauses(labelsOf(limit + 1))).toEqual([
    {
      rule: 'labels-size',
      field: 'metadata.labels',
      value: limit + 1,
      reason: 'FieldValueTooLong',
      message: 'must be at most 16384 bytes of keys and values, including labels that presets add',
      suggestion: 'use annotations for values by which nothing selects',
    },
  ])
})

test('a VM without labels is accepted', () => expect(labelsSizeCauses(undefined)).toEqual([]))

test.each([
  [64, []],
  [8192, [['labels-size', 'metadata.labels']]],
])('a new VM with %i bytes of labels, to which a preset adds 8,316', (bytes, expected) => {
  const apiVersion = 'virtset.io/v1alpha1'
  const preset = compilePreset({
    apiVersion,
    kind: 'ClusterVirtualMachinePreset',
    metadata: { name: 'large' },
    spec: { selector: {}, metadata: { labels: presetLabels } },
  })
  const vm = {
    apiVersion,
    kind: 'VirtualMachine',
    metadata: { name: 'vm', namespace: 'team', labels: labelsOf(bytes) },
    spec: { domain: { type: 'qemu', memory: { unit: 'MiB', value: 64 }, os: { type: { os: 'hvm' } } } },
  } as const
  const outcome = complete(vm, {
    presets: createCandidates('preset' in preset ? [preset.preset] : []),
    namespace: { name: 'team', labels: {} },
    capabilities,
    entropy: { uid: 'request' },
  })
  const causes = outcome.outcome === 'refused' ? outcome.causes : []
  expect(causes.map(({ rule, field }) => [rule, field])).toEqual(expected)
})

/** With other keys than those of the VM. */
const presetLabels = Object.fromEntries(
  Array.from({ length: 66 }, (_, index) => [`p${index}`.padEnd(64, 'x').slice(0, 63), 'v'.repeat(63)]),
)
