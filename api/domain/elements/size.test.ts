import { describe, expect, test } from 'vitest'
import type { Scale } from '../description.ts'
import { bytesPer, scaled } from './size.ts'

describe('units, as libvirt reads them', () => {
  test.each<[string, bigint | undefined]>([
    ['b', 1n],
    ['bytes', 1n],
    ['Byte', 1n],
    ['k', 1024n],
    ['KiB', 1024n],
    ['kib', 1024n],
    ['KB', 1000n],
    ['M', 1_048_576n],
    ['MB', 1_000_000n],
    ['GiB', 1_073_741_824n],
    ['T', 1_099_511_627_776n],
    ['PB', 1_000_000_000_000_000n],
    ['EiB', 1_152_921_504_606_846_976n],
    ['', undefined],
    ['Ki', undefined],
    ['ZB', undefined],
    ['bits', undefined],
  ])('%s is %s bytes', (unit, bytes) => expect(bytesPer(unit)).toBe(bytes))
})

const scale = (absent: Scale['absent'], to: Scale['to']): Scale => ({ value: 'value', unit: 'unit', absent, to })

describe("sizes in libvirt's unit", () => {
  test.each<[string, Scale, unknown, unknown, string | undefined]>([
    ['from a larger unit', scale('KiB', 'KiB'), 1, 'GiB', '1048576 KiB'],
    ['rounded up', scale('KiB', 'KiB'), 1, 'b', '1 KiB'],
    ['without a unit', scale('KiB', 'KiB'), '64', undefined, '64 KiB'],
    ['with an empty unit', scale('KiB', 'KiB'), 64, '', '64 KiB'],
    ['bytes without a unit', scale('bytes', 'KiB'), 1025, undefined, '2 KiB'],
    ['in the unit that libvirt calls M', scale('bytes', 'M'), 4, 'MiB', '4 M'],
    ['exactly beyond 2^53', scale('KiB', 'bytes'), '18014398509481983', 'KiB', '18446744073709550592 bytes'],
    ['the largest unit without a fraction', scale('KiB', 'largest'), 49_152, 'KiB', '48 MiB'],
    ['a fraction of all larger units', scale('KiB', 'largest'), 1025, 'bytes', '1025 bytes'],
    ['nothing has the smallest', scale('KiB', 'largest'), 0, 'GiB', '0 bytes'],
    ['more than libvirt can count', scale('KiB', 'KiB'), 16, 'EiB', undefined],
    ['less than nothing', scale('KiB', 'KiB'), -1, 'KiB', undefined],
    ['no number', scale('KiB', 'KiB'), 'x', 'KiB', undefined],
    ['hex, which libvirt does not read here', scale('KiB', 'KiB'), '0x10', 'KiB', undefined],
    ['no unit', scale('KiB', 'KiB'), 1, 'x', undefined],
    ['a unit that is not a text', scale('KiB', 'KiB'), 1, 1, undefined],
  ])('%s', (_, of, value, unit, expected) => {
    const size = scaled(of, value, unit)
    expect(size && `${size.value} ${size.unit}`).toBe(expected)
  })
})
