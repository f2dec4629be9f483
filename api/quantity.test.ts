import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { quantityNano, quantityValue } from './quantity.ts'

describe('a quantity in whole units', () => {
  test.each([
    ['0', 0n],
    ['1', 1n],
    ['64Mi', 67_108_864n],
    ['64M', 64_000_000n],
    ['1.5Gi', 1_610_612_736n],
    ['.5k', 500n],
    ['1.', 1n],
    ['2e3', 2000n],
    ['2E3', 2000n],
    ['2E', 2_000_000_000_000_000_000n],
    ['2Ei', 2n * 1024n ** 6n],
    ['3Pi', 3n * 1024n ** 5n],
    ['1e-1', 1n],
    ['100m', 1n],
    ['1001m', 2n],
    ['+7', 7n],
    ['-1Ki', -1024n],
    ['9'.repeat(256), BigInt('9'.repeat(256))],
    ['-1500m', -1n],
  ])('%s is %d', (text, value) => expect(quantityValue(text)).toBe(value))
})

describe('no quantity', () => {
  test.each([
    '',
    ' ',
    '1 Gi',
    'Gi',
    '1gi',
    '1KB',
    '--1',
    '1.1.1',
    '.',
    'e3',
    '1e',
    '0x10',
    '1Gi ',
    '٣',
    'NaN',
    '1e9999',
    `${'1'.repeat(256)}Ei`,
    `0.${'0'.repeat(1_000_000)}1`,
  ])('%j', (text) => expect(quantityValue(text)).toBeUndefined())
})

test('different spellings of a quantity are equal', () => {
  fc.assert(
    fc.property(fc.bigInt({ min: 0n, max: 1n << 40n }), (mebi) => {
      expect(quantityNano(`${mebi}Gi`)).toBe(quantityNano(`${mebi * 1024n}Mi`))
      expect(quantityNano(`${mebi}`)).toBe(quantityNano(`${mebi * 1000n}m`))
    }),
  )
})
