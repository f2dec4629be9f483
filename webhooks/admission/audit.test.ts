import { expect, test } from 'vitest'
import { compilePreset } from '../../presets/compile.ts'
import { auditAnnotations } from './audit.ts'

const preset = (name: string, mode = 'Apply') => {
  const compiled = compilePreset({
    apiVersion: 'virtset.io/v1alpha1',
    kind: 'VirtualMachinePreset',
    metadata: { name, namespace: 'team' },
    spec: { selector: {}, mode, domain: { title: 'x' } },
  })
  if (!('preset' in compiled)) throw new Error(JSON.stringify(compiled))
  return compiled.preset
}

test('annotations list the applied presets, and what those in mode Audit or Warn would have changed', () => {
  const [a, b, c, d] = [preset('a'), preset('b'), preset('c', 'Audit'), preset('d', 'Warn')]
  const participants = [a, b].map((one) => ({ preset: one, changes: 1 }))
  const audit = [
    { preset: c, fields: ['spec.domain.title', 'spec.domain.vcpu'] },
    { preset: preset('e', 'Audit'), fields: [] },
    { preset: d, fields: ['spec.domain.title'] },
  ]
  expect(auditAnnotations({ participants, audit })).toEqual({
    presets: 'team/a, team/b',
    'presets-audit': 'team/c: spec.domain.title, spec.domain.vcpu',
    'presets-warn': 'team/d: spec.domain.title',
  })
})

test('without presets there are no annotations, and none exceeds its limit', () => {
  expect(auditAnnotations({ participants: [], audit: [] })).toEqual({})
  const fields = Array.from({ length: 1000 }, (_, index) => `spec.field${index}`)
  expect(
    auditAnnotations({ participants: [], audit: [{ preset: preset('a', 'Audit'), fields }] })['presets-audit']?.length,
  ).toBe(2048)
})
