import { expect, test } from 'vitest'
import { statusOf } from './received-status.ts'

const cause = { reason: 'FieldValueInvalid', field: 'spec.a', message: 'must be b' }

test.each<[string, unknown, readonly object[]]>([
  ['causes', [cause], [cause]],
  ['none', undefined, []],
  ['what is no list', 'causes', []],
  ['items that are no causes', [null, 'text', cause], [cause]],
  [
    'fields that are no text',
    [{ ...cause, field: { toString: 1 } }],
    [{ reason: cause.reason, message: cause.message }],
  ],
])('the causes of a Status with %s', (_, causes, expected) => {
  const status = statusOf(422, { kind: 'Status', message: 'refused', details: { name: 'web', causes } })
  expect(status).toEqual({
    code: 422,
    reason: 'Invalid',
    message: 'refused',
    details: { name: 'web', causes: expected },
  })
})
