import { expect, test } from 'vitest'
import type { Cause } from './cause.ts'
import { refusalText } from './refusal.ts'

const cause = (field: string): Cause => ({
  rule: 'r',
  field,
  value: 16,
  reason: 'FieldValueInvalid',
  message: 'must be at most 8',
})

test('prints a single cause on the same line, like kubectl', () => {
  expect(refusalText('VirtualMachine', 'vm', [cause('spec.a')])).toBe(
    'The VirtualMachine "vm" is invalid: spec.a: Invalid value: 16: must be at most 8',
  )
})

test('prints several causes on a line each', () => {
  expect(refusalText('VirtualMachine', 'vm', [cause('spec.a'), cause('spec.b')])).toBe(
    [
      'The VirtualMachine "vm" is invalid: ',
      '* spec.a: Invalid value: 16: must be at most 8',
      '* spec.b: Invalid value: 16: must be at most 8',
    ].join('\n'),
  )
})

test('prints line ends in names and keys as JSON has them', () => {
  const forged = '\n::error::'
  expect(refusalText('VirtualMachine', `vm${forged}`, [cause(`spec.a${forged}`)])).toBe(
    String.raw`The VirtualMachine "vm\n::error::" is invalid: spec.a\n::error::: Invalid value: 16: must be at most 8`,
  )
})
