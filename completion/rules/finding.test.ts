import { expect, test } from 'vitest'
import { forbidden, forbidEach, invalid, missingCapability, required } from './finding.ts'

test('a finding has the value of its field, unless that is an object', () => {
  expect([
    invalid('a', 1, 'must be 2'),
    invalid('a', undefined, 'must be 2'),
    invalid('a', {}, 'must be 2'),
    invalid('a', null, 'must be 2', 'a: 2'),
  ]).toEqual([
    { field: 'a', value: 1, reason: 'FieldValueInvalid', message: 'must be 2' },
    { field: 'a', reason: 'FieldValueInvalid', message: 'must be 2' },
    { field: 'a', reason: 'FieldValueInvalid', message: 'must be 2' },
    { field: 'a', value: null, reason: 'FieldValueInvalid', message: 'must be 2', suggestion: 'a: 2' },
  ])
})

test('a required field has no value', () => {
  expect([required('a', 'must be set'), required('a', 'must be set', 'a: 1')]).toEqual([
    { field: 'a', reason: 'FieldValueRequired', message: 'must be set' },
    { field: 'a', reason: 'FieldValueRequired', message: 'must be set', suggestion: 'a: 1' },
  ])
})

test('each of the fields that is set is forbidden, at any depth', () => {
  const holder = { a: 1, b: { c: false, d: null }, e: 'text' }
  expect(forbidEach(holder, 'spec', ['a', 'b.c', 'b.none', 'none', 'e.f', 'none.g'], 'must not be set')).toEqual([
    forbidden('spec.a', 1, 'must not be set'),
    forbidden('spec.b.c', false, 'must not be set'),
  ])
})

test('a finding names the capability that the node is missing', () => {
  expect(missingCapability('SCSI controller lsilogic', invalid('a', 1, 'must be 2'))).toEqual({
    field: 'a',
    value: 1,
    reason: 'FieldValueInvalid',
    message: 'must be 2',
    missingCapability: 'SCSI controller lsilogic',
  })
})
