import { describe, expect, it } from 'vitest'
import type { Cause } from '../api/cause.ts'
import type { Preset } from '../api/preset.ts'
import { compileParsed } from '../presets/compile.ts'
import type { Persisted } from '../runtime/resource.ts'
import { presetStatus } from './preset-status.ts'

const preset: Persisted<Preset> = {
  apiVersion: 'virtset.io/v1alpha1',
  kind: 'VirtualMachinePreset',
  metadata: { namespace: 'default', name: 'small', uid: 'p', resourceVersion: '3', generation: 2 },
  spec: { selector: { matchLabels: { size: 'small' } }, domain: { title: 'small' } },
}
const compiled = compileParsed(preset)
const { revision } = compiled.origin

describe('the status of a preset', () => {
  const usage = { matched: 1, applied: 1, outdated: 0 }
  const first = presetStatus(preset, { revision, overlaps: [] }, usage, '2030-01-01T00:00:00Z')
  const accepted = { type: 'Accepted', observedGeneration: 2 }
  const lastTransitionTime = '2030-01-01T00:00:00Z'
  const free = {
    type: 'ConflictFree',
    observedGeneration: 2,
    status: 'True',
    reason: 'NoConflicts',
    message: '',
    lastTransitionTime,
  }

  it('reports that it is accepted, and its revision', () => {
    expect(first).toEqual({
      revision,
      ...usage,
      observedGeneration: 2,
      conditions: [{ ...accepted, status: 'True', reason: 'Accepted', message: '', lastTransitionTime }, free],
    })
  })

  it('is unchanged while nothing changes', () => {
    expect(
      presetStatus({ ...preset, status: first }, { revision, overlaps: [] }, usage, '2030-01-01T00:01:00Z'),
    ).toEqual(first)
  })

  it('names a limited number of presets with which it could disagree', () => {
    const overlaps = Array.from({ length: 12 }, (_, index) => `disagrees with ${index}`)
    expect(presetStatus(preset, { revision, overlaps }, usage, lastTransitionTime).conditions?.[1]).toEqual({
      ...free,
      status: 'False',
      reason: 'CouldDisagree',
      message: `${overlaps.slice(0, 10).join('; ')}; and 2 more`,
    })
  })

  it('reports that only the conditions are too expensive', () => {
    const causes: Cause[] = [
      { rule: 'preset-condition-cost', field: 'spec.matchConditions', reason: 'FieldValueInvalid', message: 'is slow' },
    ]
    expect(presetStatus(preset, { causes }, usage, lastTransitionTime).conditions?.[0]).toMatchObject({
      status: 'False',
      reason: 'ConditionsTooExpensive',
      message: 'spec.matchConditions: is slow',
    })
  })

  it('of an invalid preset has all causes, and no revision', () => {
    const causes: Cause[] = ['a', 'b'].map((field) => ({
      rule: 'r',
      field,
      reason: 'FieldValueInvalid',
      message: 'is bad',
    }))
    expect(presetStatus({ ...preset, status: first }, { causes }, usage, '2030-01-01T00:01:00Z')).toEqual({
      ...usage,
      observedGeneration: 2,
      conditions: [
        {
          ...accepted,
          status: 'False',
          reason: 'Invalid',
          message: 'a: is bad; b: is bad',
          lastTransitionTime: '2030-01-01T00:01:00Z',
        },
        {
          ...free,
          status: 'Unknown',
          reason: 'NotAccepted',
          message: 'the preset is not applied to any VM',
          lastTransitionTime: '2030-01-01T00:01:00Z',
        },
      ],
    })
  })
})
