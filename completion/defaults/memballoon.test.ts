import { expect, test } from 'vitest'
import type { Domain } from '../../api/domain/domain.ts'
import { applied } from '../../test/applied.ts'
import { memballoon } from './memballoon.ts'

test.each<[string, Domain, Domain]>([
  ['every VM has a virtio balloon', {}, { devices: { memballoon: { model: 'virtio' } } }],
  ['except with model none', { devices: { memballoon: { model: 'none' } } }, {}],
])('%s', (_, domain, expected) => {
  expect(applied([memballoon], domain)).toEqual({ ...domain, ...expected })
})
