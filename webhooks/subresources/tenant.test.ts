import { expect, test } from 'vitest'
import { tenantOf } from './tenant.ts'

test.each([
  ['jane', 'jane'],
  ['system:serviceaccount:team:a', 'system:serviceaccount:team'],
  ['system:serviceaccount:team:b', 'system:serviceaccount:team'],
  ['system:serviceaccount:team', 'system:serviceaccount:team'],
])('%s counts as %s', (username, tenant) => {
  expect(tenantOf({ username, groups: [] })).toBe(tenant)
})
