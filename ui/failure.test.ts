import { expect, test } from 'vitest'
import { failureOf, refusedBy } from './failure.ts'

const causes = [
  { reason: 'FieldValueRequired', field: 'spec.domain.os', message: 'Required value' },
  { reason: 'FieldValueInvalid', field: 'spec.domain.vcpu', message: 'Invalid value: 0: must be at least 1' },
]
const status = (given: object) => JSON.stringify({ kind: 'Status', status: 'Failure', ...given })

test.each([
  ['a Status', status({ message: 'the VM is not running' }), { message: 'the VM is not running', causes: [] }],
  [
    'a Status with several causes',
    status({ message: 'VM "x" is invalid: … (and 1 more)', details: { causes } }),
    { message: 'VM "x" is invalid: … (and 1 more)', causes },
  ],
  [
    'a Status with causes that are none',
    status({ message: 'no', details: { causes: [null, 'text', causes[0], { field: { a: 1 }, message: 'wrong' }] } }),
    { message: 'no', causes: [causes[0], { message: 'wrong' }] },
  ],
  [
    'a Status whose causes are no list',
    status({ message: 'no', details: { causes: { length: 2 } } }),
    { message: 'no', causes: [] },
  ],
  [
    'a Status whose message has its only cause',
    status({ message: 'VM "x" is invalid: spec.domain.os: Required value', details: { causes: causes.slice(0, 1) } }),
    { message: 'VM "x" is invalid: spec.domain.os: Required value', causes: [] },
  ],
  ['a text', 'the request comes from another site', { message: 'the request comes from another site', causes: [] }],
  ['JSON other than a Status', '{"a":1}', { message: '{"a":1}', causes: [] }],
  ['nothing', '', { message: 'HTTP 409', causes: [] }],
])('a refusal with %s', (_, body, expected) => {
  expect(failureOf(refusedBy(409, body))).toEqual(expected)
})

test('any other error is its message', () => {
  expect(failureOf(new TypeError('Failed to fetch'))).toEqual({ message: 'Failed to fetch', causes: [] })
})
