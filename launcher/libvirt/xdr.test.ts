import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { ProtocolError } from './errors.ts'
import { type Structs, type Value, decode, encode, maxStringBytes } from './xdr.ts'

const structs: Structs = {
  domain: { name: 'string', uuid: 'opaque[4]', id: 'int' },
  pair: { first: 'domain', second: 'domain?' },
}

function hexOf(type: string, value: Value): string {
  return encode({ it: type }, { it: value }, structs).toString('hex')
}

function valueOf(type: string, hex: string): Value | undefined {
  return decode({ it: type }, Buffer.from(hex, 'hex'), structs)['it']
}

const uuid = new Uint8Array([1, 2, 3, 4])
const uuidHex = '01020304'

describe('encoding and decoding', () => {
  test.each<[string, Value, string]>([
    ['int', 0, '00000000'],
    ['int', -1, 'ffffffff'],
    ['int', 0x7fff_ffff, '7fffffff'],
    ['int', -0x8000_0000, '80000000'],
    ['uint', 0x8000_0000, '80000000'],
    ['uint', 0xffff_ffff, 'ffffffff'],
    ['hyper', -1n, 'ffffffffffffffff'],
    ['hyper', 2n ** 63n - 1n, '7fffffffffffffff'],
    ['uhyper', 9_007_199_254_740_993n, '0020000000000001'],
    ['uhyper', 2n ** 64n - 1n, 'ffffffffffffffff'],
    ['string', '', '00000000'],
    ['string', 'abc', '0000000361626300'],
    ['string', 'abcd', '0000000461626364'],
    ['string', 'ü', '00000002c3bc0000'],
    ['string?', null, '00000000'],
    ['string?', '', '0000000100000000'],
    ['string?', 'a', '000000010000000161000000'],
    ['opaque[4]', uuid, uuidHex],
    ['int<>', [], '00000000'],
    ['int<2>', [1, 2], '000000020000000100000002'],
    ['string<>', ['a', ''], '00000002000000016100000000000000'],
    ['domain', { name: 'vm', uuid, id: -1 }, `00000002766d0000${uuidHex}ffffffff`],
    ['domain?', null, '00000000'],
    ['pair', { first: { name: '', uuid, id: 0 }, second: null }, `00000000${uuidHex}0000000000000000`],
    ['domain<1>', [{ name: '', uuid, id: 7 }], `0000000100000000${uuidHex}00000007`],
  ])('%s, row %#', (type, value, hex) => {
    expect(hexOf(type, value)).toBe(hex)
    expect(encode({ it: type }, { it: valueOf(type, hex) ?? null }, structs).toString('hex')).toBe(hex)
  })

  test('opaque of any length', () => {
    expect(hexOf('opaque<>', new Uint8Array([7]))).toBe('0000000107000000')
    expect(valueOf('opaque<5>', '0000000107000000')).toEqual(Buffer.from([7]))
  })

  test('fields are in the order of the type, not of the value', () => {
    expect(encode({ a: 'int', b: 'int' }, { b: 2, a: 1 }, structs).toString('hex')).toBe('0000000100000002')
  })

  test('any value is decoded as it was encoded', () => {
    const domain = fc.record({
      name: fc.string({ unit: 'grapheme' }),
      uuid: fc.uint8Array({ minLength: 4, maxLength: 4 }),
      id: fc.integer(),
    })
    const fields = { a: 'domain<>', b: 'string?', c: 'hyper', d: 'uhyper', e: 'opaque<>', f: 'pair?' }
    const value = fc.record({
      a: fc.array(domain, { maxLength: 4 }),
      b: fc.option(fc.string()),
      c: fc.bigInt({ min: -(2n ** 63n), max: 2n ** 63n - 1n }),
      d: fc.bigInt({ min: 0n, max: 2n ** 64n - 1n }),
      e: fc.uint8Array(),
      f: fc.option(fc.record({ first: domain, second: fc.option(domain) })),
    })
    const property = fc.property(value, (written) => {
      const bytes = encode(fields, written, structs)
      const again = encode(fields, decode(fields, bytes, structs), structs)
      return bytes.length % 4 === 0 && again.equals(bytes)
    })
    expect(fc.check(property).counterexample).toBe(null)
  })
})

describe('invalid values are refused', () => {
  test.each<[string, Value, string]>([
    ['int', 0x8000_0000, 'it is not of type int'],
    ['int', 1.5, 'it is not of type int'],
    ['int', 1n, 'it is not of type int'],
    ['uint', -1, 'it is not of type uint'],
    ['uint', 2 ** 32, 'it is not of type uint'],
    ['hyper', 2n ** 63n, 'it is not of type hyper'],
    ['uhyper', -1n, 'it is not of type uhyper'],
    ['uhyper', 1, 'it is not of type uhyper'],
    ['string', 1, 'it is not of type string'],
    ['string', null, 'it is not of type string'],
    ['opaque[4]', new Uint8Array(3), 'it is not of type opaque[4]'],
    ['opaque<2>', new Uint8Array(3), 'it is not of type opaque<2>'],
    ['int<2>', [1, 2, 3], 'it is not of type int<2>'],
    ['int<>', 1, 'it is not of type int<>'],
    ['domain', [], 'it is not of type domain'],
    ['domain', { name: 'x', uuid }, 'id is missing'],
    ['string', 'x'.repeat(maxStringBytes + 1), 'it is longer than'],
  ])('%s, row %#', (type, value, message) => {
    expect(() => hexOf(type, value)).toThrow(ProtocolError)
    expect(() => hexOf(type, value)).toThrow(message)
  })

  test('a string of exactly the limit is not', () => {
    expect(encode({ it: 'string' }, { it: 'x'.repeat(maxStringBytes) }, structs).length).toBe(maxStringBytes + 4)
  })
})

describe('invalid bytes are refused', () => {
  test.each([
    ['too few', 'int', '0000', '4 bytes expected, 2 are left'],
    ['none', 'int', '', '4 bytes expected, 0 are left'],
    ['too many', 'int', '0000000100', '1 unexpected bytes at the end'],
    ['a string longer than the message', 'string', '000000ff61', '256 bytes expected, 1 are left'],
    ['a string without its padding', 'string', '0000000161', '4 bytes expected, 1 are left'],
    ['a string longer than the limit', 'string', 'ffffffff', 'a length of 4294967295 exceeds the limit of 4194304'],
    ['a string that is not UTF-8', 'string', '00000001ff000000', 'a string is not UTF-8'],
    ['a list longer than the message', 'int<>', '0000400000000000', '16384 items in 4 bytes'],
    [
      'a list longer than the limit',
      'int<2>',
      '00000003000000000000000000000000',
      'a length of 3 exceeds the limit of 2',
    ],
    ['a value that occurs twice', 'int?', '000000020000000000000000', 'an optional value occurs 2 times'],
  ])('%s', (_, type, hex, message) => {
    expect(() => valueOf(type, hex)).toThrow(ProtocolError)
    expect(() => valueOf(type, hex)).toThrow(message)
  })

  test('no bytes make it crash', () => {
    const property = fc.property(fc.uint8Array({ maxLength: 200 }), (bytes) => {
      try {
        decode({ a: 'pair<>', b: 'string?', c: 'opaque<>', d: 'uhyper' }, bytes, structs)
        return true
      } catch (error) {
        return error instanceof ProtocolError
      }
    })
    expect(fc.check(property, { numRuns: 2000 }).counterexample).toBe(null)
  })
})
