import { expect, test } from 'vitest'
import type { Domain } from '../../api/domain/domain.ts'
import { applied } from '../../test/applied.ts'
import { memballoon } from './memballoon.ts'

test.each<[string, Domain, Domain]>([
  ['every VM has one', {}, { devices: { memballoon: { model: 'virtio' } } }],
  ['but for one that wants none', { devices: { memballoon: { model: 'none' } } }, {}],
])('%s', (_, domain, expected) => {
  expect(applied([memballoon], domain)).toEqual({ ...domain, ...expected })
})
