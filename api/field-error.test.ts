import { expect, test } from 'vitest'
import { renderCause } from './refusal.ts'
import { invalidValue, requiredField, wrongType } from './field-error.ts'

test.each([
  ['a missing field', requiredField('spec'), 'Required value: must be given'],
  [
    'an invalid value',
    invalidValue('port', 'spec.port', 0, 'must be at least 1'),
    'Invalid value: 0: must be at least 1',
  ],
  ['a number', wrongType('spec', 1, 'an object'), 'Invalid value: 1: must be an object, not a number'],
  ['a string', wrongType('spec', 'x', 'an object'), 'Invalid value: "x": must be an object, not a string'],
  ['true', wrongType('spec', true, 'an object'), 'Invalid value: true: must be an object, not a boolean'],
  ['an object', wrongType('spec', { a: 1 }, 'a list'), 'Invalid value: must be a list, not an object'],
  ['a list', wrongType('spec', [1], 'an object'), 'Invalid value: must be an object, not a list'],
  ['null', wrongType('spec', null, 'an object'), 'Invalid value: must be an object, not null'],
  ['nothing', wrongType('', undefined, 'an object'), 'Invalid value: must be an object, not missing'],
])('%s is reported by its type, without the value of an object', (_, cause, text) => {
  expect(renderCause(cause)).toBe(text)
})
