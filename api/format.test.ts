import { expect, test } from 'vitest'
import { formatFault, isCheckedFormat } from './format.ts'

const noDate = 'must be a date and time, e.g. 2030-01-01T00:00:00.000000Z'

test.each<[string | undefined, string, string | undefined]>([
  ['byte', 'YQ==', undefined],
  ['byte', '', undefined],
  ['byte', 'YWJj\r\nYWI=\n', undefined],
  ['byte', 'a', 'must be base64'],
  ['byte', 'YQ=', 'must be base64'],
  ['byte', 'Y===', 'must be base64'],
  ['byte', 'YQ==YQ==', 'must be base64'],
  ['byte', 'Y-_=', 'must be base64'],
  ['date-time', '2030-01-01T00:00:00Z', undefined],
  ['date-time', '2030-01-01t00:00:00.000001+01:00', undefined],
  ['date-time', '2030-01-01T00:00:00', undefined],
  ['date-time', '2030-13-01T00:00:00Z', noDate],
  ['date-time', '2030-01-01', noDate],
  ['date-time', 'x2030-01-01T00:00:00Z', noDate],
  ['date-time', '2030-01-01T00:00:00Zx', noDate],
  ['date-time', 'a', noDate],
  ['int32', 'a', undefined],
  ['constructor', 'a', undefined],
  [undefined, 'a', undefined],
])('the format %s of %j', (format, text, fault) => expect(formatFault(format, text)).toBe(fault))

test('formats of Go’s types are checked, and no others', () => {
  expect(['byte', 'date-time', 'int32', 'toString', 7, undefined].map(isCheckedFormat)).toEqual([
    true,
    true,
    false,
    false,
    false,
    false,
  ])
})
