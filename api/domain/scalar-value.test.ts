import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { scalars } from '../../test/arbitraries/domain.ts'
import { canonicalValue, exactNumber, integerOf, valueFault } from './scalar-value.ts'
import {
  bareHex,
  base64,
  cpuset,
  decimal,
  hex,
  integer,
  hostName,
  ip,
  mac,
  oneOf,
  onOff,
  path,
  socketPath,
  uint64,
  unit,
  uuid,
  yesNo,
  type Scalar,
} from './scalar.ts'
import { firmwareValue, line } from './text.ts'

describe('the exact integer of a value', () => {
  test.each<[unknown, bigint | undefined]>([
    [0, 0n],
    [-5, -5n],
    ['0', 0n],
    ['18446744073709551615', 18_446_744_073_709_551_615n],
    ['0x1F', 31n],
    ['017', undefined],
    ['018', undefined],
    [2 ** 53, undefined],
    [1.5, undefined],
    ['1.0', undefined],
    ['1e3', undefined],
    ['', undefined],
    [' 1', undefined],
    ['0x', undefined],
    [true, undefined],
    [null, undefined],
    ['9'.repeat(41), undefined],
  ])('%j is %s', (value, expected) => expect(integerOf(value)).toBe(expected))

  test('accepts hex only where libvirt does', () => expect(integerOf('0x1F', false)).toBeUndefined())

  test.each<[bigint, number | string]>([
    [9_007_199_254_740_991n, 9_007_199_254_740_991],
    [9_007_199_254_740_992n, '9007199254740992'],
    [-9_007_199_254_740_992n, '-9007199254740992'],
  ])('%s in JSON is %j', (value, json) => expect(exactNumber(value)).toBe(json))
})

const address: Scalar = { ...integer({ min: 0, max: 255 }), hexFor: { pci: 2 } }

describe('what libvirt would write', () => {
  test.each<[string, Scalar, unknown, unknown, { [key: string]: unknown }?]>([
    ['a word for true', yesNo, 'yes', true],
    ['a word for false', onOff, 'off', false],
    ['a word of the other kind is unchanged', onOff, 'no', 'no'],
    ['a boolean that YAML parsed from a word', oneOf('on', 'off', 'unmap'), true, 'on'],
    ['a boolean without a matching word is unchanged', oneOf('auto', 'manual'), true, true],
    ['a decimal string', uint64, '7', 7],
    ['a decimal string beyond 2^53', uint64, '18446744073709551615', '18446744073709551615'],
    ['a word beside numbers', integer({ words: ['auto'] }), 'auto', 'auto'],
    ['hex in its width', hex(4, 0xffff), '0XaB', '0x00ab'],
    ['a number that libvirt writes in hex', hex(2, 0xff), 31, '0x1f'],
    ['hex in upper case', { ...hex(4, 0xffff), hexUpperCase: true }, '0xab', '0x00AB'],
    ['hex by the type beside it', address, 10, '0x0a', { type: 'pci' }],
    ['decimal by the type beside it', address, '0x0a', 10, { type: 'drive' }],
    ['hex by another sibling', { ...integer(), hexBeside: { slot: 2 } }, 1, '0x01', { slot: 0 }],
    ['decimal without that sibling', { ...integer(), hexBeside: { slot: 2 } }, '0x1', 1, {}],
    ['a MAC address', mac, '52:54:0:AB:cd:1', '52:54:00:ab:cd:01'],
    ['a UUID without hyphens', uuid, '000102030405460788090A0B0C0D0E0F', '00010203-0405-4607-8809-0a0b0c0d0e0f'],
    ['a decimal', decimal, '1.5', 1.5],
    ['an invalid value is unchanged', uint64, 'many', 'many'],
    ['a number with leading zeros is invalid', uint64, '010', '010'],
    ['text stays', line(), ' A ', ' A '],
  ])('%s', (_, scalar, value, expected, siblings = {}) =>
    expect(canonicalValue(scalar, value, siblings)).toBe(expected),
  )
})

describe('valid and invalid values of each kind', () => {
  test.each<[string, Scalar, unknown[], unknown[]]>([
    ['yes and no', yesNo, [true, false, 'yes', 'no'], ['on', 'YES', 1, null, {}]],
    ['an enumeration', oneOf('a', 'b'), ['a', 'b'], ['A', '', true, 1, null, ['a']]],
    ['an enumeration with on and off', oneOf('on', 'off', 'unmap'), ['on', true, false], ['yes']],
    [
      'an integer',
      integer({ min: -1, max: 7 }),
      [-1, 7, '7', '-1'],
      [-2, 8, '8', 1.5, '0x1', '+1', '', ' 1', true, null, '01', '-01', '-0'],
    ],
    ['hex', hex(2, 0xff), [255, '255', '0xff', '0xFF'], ['0x100', '0xg', '08', '010', '00']],
    ['hex that libvirt reads without a prefix', bareHex(1, 0xff), [9, '9', 10, '0x10'], ['10', 'a', '010']],
    ['a decimal', decimal, [1, -1.5, '1.50'], ['1e3', 1e-7, '.5', 'x', NaN]],
    ['a MAC address', mac, ['52:54:00:12:34:56'], ['52-54-00-12-34-56', '52:54:00:12:34', 1]],
    ['a UUID', uuid, ['00010203-0405-4607-8809-0a0b0c0d0e0f'], ['', '00010203-0405-4607-8809-0a0b0c0d0e0g']],
    ['a UUID that may be empty', { ...uuid, mayBeEmpty: true }, [''], [' ']],
    ['a path', path, ['/a/b c', `/${'a'.repeat(4094)}`], ['a', '', './a', '/a\n', 1, `/${'a'.repeat(4095)}`]],
    ['the path of a socket', socketPath, [`/${'a'.repeat(106)}`, '/ä'], [`/${'ä'.repeat(54)}`, '/a\u007f']],
    [
      'a host',
      hostName,
      ['a', 'a.example.', '10.0.0.1', 'fe80::1'],
      ['', '-a', 'a/b', 'a:1', 'a,b', 'fe80::1%eth0', 'é'],
    ],
    ['a set of CPUs', cpuset, ['0-3,^2,8', ' 1 '], ['', 'a', '1-', ',', '100000']],
    [
      'an IP address',
      ip,
      ['1.2.3.4', 'fe80::1', '::', '::ffff:1.2.3.4', '1:2:3:4:5:6:7:8'],
      [
        '1.2.3',
        '1.2.3.256',
        '1.2.3.04',
        'a',
        '',
        ':',
        '1::2::3',
        '1:2:3:4:5:6:7',
        '1:2:3:4:5:6:7:8:9',
        ':1:2:3:4:5:6:7',
        'fe80::12345',
      ],
    ],
    ['a unit', unit, ['b', 'bytes', 'KiB', 'kib', 'M', 'EB'], ['', 'Ki', 'x', 'bits']],
    ['base 64', base64, ['', 'YQ==', 'YWI=\n'], ['a-b', 'YQ===']],
    [
      'a line',
      line(4),
      ['', 'abcd', '😀'],
      ['abcde', 'ä😀', '\0', '\u001B', '\n', '\u0085', '\uD800', '\uFFFF', 1, null],
    ],
  ])('%s', (_, scalar, right, wrong) => {
    expect(right.filter((value) => valueFault(scalar, value) !== undefined)).toEqual([])
    expect(wrong.filter((value) => valueFault(scalar, value) === undefined)).toEqual([])
  })

  test.each<[string, Scalar, unknown, string]>([
    ['leading zeros', uint64, '010', 'did you mean 10?'],
    ['hex', uint64, '0x10', 'did you mean 16?'],
    ['no prefix', bareHex(1, 0xffff), '505', 'did you mean "0x505"?'],
  ])('a refused number suggests another spelling: %s', (_, scalar, value, suggestion) =>
    expect(valueFault(scalar, value)?.suggestion).toBe(suggestion),
  )

  test.each<[string, Scalar, string]>([
    ['base 64', base64, ' '.repeat(1_000_000) + '!'],
    ['a set of CPUs', cpuset, ' '.repeat(1_000_000) + '!'],
    ['a set of many CPUs', cpuset, '1,'.repeat(500_000) + '!'],
    ['a UUID', uuid, 'a'.repeat(1_000_000)],
    ['an integer', uint64, '9'.repeat(1_000_000)],
    ['text', line(), `${'a'.repeat(1_000_000)}\0`],
    ['text for the firmware', firmwareValue, `${',,'.repeat(500_000)},`],
    ['text within its length', firmwareValue, `${',,'.repeat(32_000)},`],
  ])('%s of a million characters is cheap', (_, scalar, value) => {
    const start = process.cpuUsage().user
    expect(valueFault(scalar, value)).toBeDefined()
    expect(process.cpuUsage().user - start).toBeLessThan(1_000_000)
  })

  test('the canonical spelling is idempotent', () =>
    fc.assert(
      fc.property(
        fc
          .constantFrom<Scalar>(yesNo, uint64, hex(4, 0xffff), mac, uuid, decimal, address)
          .chain((scalar) => scalars(scalar).map((value) => ({ scalar, value }))),
        ({ scalar, value }) => {
          const once = canonicalValue(scalar, value)
          expect(canonicalValue(scalar, once)).toBe(once)
          expect(valueFault(scalar, once)).toBeUndefined()
        },
      ),
    ))
})
