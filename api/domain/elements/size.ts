import { attribute, content, element, type Scale } from '../description.ts'
import type { Reach } from '../reach.ts'
import { integerOf } from '../scalar-value.ts'
import { uint64, unit } from '../scalar.ts'

/**
 * An element whose text is an amount of memory or storage, with the unit in `unit`: `{unit: MiB, value: 64}`. `absent`
 * is the unit of a bare number, `to` the unit that libvirt writes.
 */
export const size = (description: string, units: Pick<Scale, 'absent' | 'to'>, options: { reach?: Reach } = {}) =>
  element(
    description,
    {
      unit: attribute(unit, `The unit of the value; ${units.absent} if absent.`, options),
      value: content(uint64, 'The amount.', options),
    },
    { whole: true, scale: { value: 'value', unit: 'unit', ...units } },
  )

export const kibibytes = (description: string, options: { reach?: Reach } = {}) =>
  size(description, { absent: 'KiB', to: 'KiB' }, options)

/** libvirt stores bytes in 64 bits. */
const maxBytes = 2n ** 64n - 1n

/** Powers of 1024, or of 1000 with a `B`. Case-insensitive. */
const letters = 'kmgtpe'

/**
 * The number of bytes of a unit; undefined if it is not a unit. As in libvirt, `''` and `b` are bytes, `K` and `KiB`
 * 1024, `KB` 1000.
 */
export const bytesPer = (unit: string): bigint | undefined => usual.get(unit) ?? parseUnit(unit)

const parseUnit = (unit: string): bigint | undefined => {
  const match = /^(?:b|bytes?|([kmgtpe])(i?b)?)$/i.exec(unit)
  if (!match) return undefined
  const [, letter, suffix] = match
  if (letter === undefined) return 1n
  return (suffix?.toLowerCase() === 'b' ? 1000n : 1024n) ** BigInt(letters.indexOf(letter.toLowerCase()) + 1)
}

/** A completed VM has a dozen sizes, nearly all of them in these units. */
const usual = new Map(['bytes', 'KiB', 'MiB', 'GiB'].map((unit) => [unit, parseUnit(unit)]))

/** undefined if the value or unit is invalid. */
const bytesOf = (scale: Scale, value: unknown, unit: unknown): bigint | undefined => {
  const amount = integerOf(value, false)
  const from = unit === undefined || unit === '' ? bytesPer(scale.absent) : typeof unit === 'string' && bytesPer(unit)
  return amount === undefined || amount < 0n || !from ? undefined : amount * from
}

/** A cheap upper bound from the first letter of the unit, which avoids exact arithmetic for all but huge sizes. */
const mayBeTooLarge = (value: unknown, unit: string): boolean =>
  Number(value) >= 2 ** (64 - 10 * (letters.indexOf(unit.charAt(0).toLowerCase()) + 1))

/**
 * Whether a size overflows libvirt's 64 bits only because of its unit; false if the value or unit is invalid by itself.
 */
export const isTooLarge = (scale: Scale, value: unknown, unit: unknown): boolean =>
  mayBeTooLarge(value, typeof unit === 'string' ? unit : scale.absent) &&
  (integerOf(value, false) ?? 0n) <= maxBytes &&
  (bytesOf(scale, value, unit) ?? 0n) > maxBytes

/**
 * A size in libvirt's unit for it, rounded up.
 * @returns undefined if the value or unit is invalid, or the size overflows libvirt's 64 bits
 */
export const scaled = (scale: Scale, value: unknown, unit: unknown): { value: bigint; unit: string } | undefined => {
  const bytes = bytesOf(scale, value, unit)
  if (bytes === undefined || bytes > maxBytes) return undefined
  if (scale.to === 'largest') return largest(bytes)
  const to = bytesPer(scale.to) ?? 1n
  return { value: (bytes + to - 1n) / to, unit: scale.to }
}

const largest = (bytes: bigint): { value: bigint; unit: string } => {
  let value = bytes
  let power = 0
  while (value > 0n && value % 1024n === 0n && power < letters.length) {
    value /= 1024n
    power += 1
  }
  return { value, unit: ['bytes', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB', 'EiB'][power] ?? 'bytes' }
}
