import type { CauseReason } from '../cause.ts'
import { quoted } from '../field-error.ts'
import { nearest } from '../nearest.ts'
import { canonicalCpuset, isCpuset } from './cpuset.ts'
import { maxTextLength } from './limits.ts'
import { wordOf, type Scalar } from './scalar.ts'
import { control } from './text.ts'

/** What is wrong with a value, as parts of a Cause. */
export interface ValueFault {
  readonly reason: CauseReason
  readonly message: string
  readonly suggestion?: string
}

type Kind<K extends Scalar['kind']> = Extract<Scalar, { kind: K }>

const units = ['b', ...['K', 'M', 'G', 'T', 'P', 'E'].flatMap((prefix) => [`${prefix}B`, `${prefix}iB`])]

/** XML 1.0 cannot represent other characters, not even as references. */
const xmlText = /^[\t\n\r\u0020-\uD7FF\uE000-\uFFFD\u{10000}-\u{10FFFF}]*$/u

/**
 * Kinds that a regular expression describes, with the message for other values. All expressions are linear in the
 * length of the text.
 */
const patterns: { readonly [kind: string]: { readonly pattern: RegExp; readonly message: string } } = {
  uuid: {
    pattern: /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$|^[0-9a-f]{32}$/i,
    message: 'must be a UUID: 32 hex digits as 8-4-4-4-12',
  },
  mac: {
    pattern: /^[0-9a-f]{1,2}(?::[0-9a-f]{1,2}){5}$/i,
    message: 'must be a MAC address: six pairs of hex digits with colons, e.g. 52:54:00:12:34:56',
  },
  unit: {
    pattern: /^(?:b|bytes?|[kmgtpe](?:i?b)?)$/i,
    message: `must be a unit of size: ${units.slice(0, -1).join(', ')} or ${units.at(-1)}`,
  },
  timestamp: {
    pattern: /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[+-]\d\d:\d\d)?$/,
    message: 'must be a time such as 2031-01-02T03:04:05Z',
  },
  pciClass: { pattern: /^0x[0-9a-f]{6}$/i, message: 'must be a PCI class: 0x and six hex digits' },
  wwn: { pattern: /^(?:0x)?[0-9a-f]{16}$/i, message: 'must be a world wide name: 16 hex digits' },
  bytes: { pattern: /^[A-Za-z0-9+/\s]*(?:=\s*){0,2}$/, message: 'must be base 64' },
}

/**
 * The exact integer of a number or text. With `isHex`, hex (0x…) is accepted as well. Leading zeros are not: libvirt
 * reads `010` as ten in some fields and as eight in others.
 * @returns undefined if it is not an integer, or if it is a number beyond 2^53, which may be inexact
 */
export const integerOf = (value: unknown, isHex = true): bigint | undefined => {
  if (typeof value === 'number') return Number.isSafeInteger(value) ? BigInt(value) : undefined
  if (typeof value !== 'string' || value.length > 40) return undefined
  const pattern = isHex ? /^(?:0x[0-9a-f]+|0|-?[1-9]\d*)$/i : /^(?:0|-?[1-9]\d*)$/
  return pattern.test(value) ? BigInt(value.toLowerCase()) : undefined
}

const readsHex = (scalar: Kind<'integer'>): boolean =>
  scalar.hexDigits !== undefined || scalar.hexFor !== undefined || scalar.hexBeside !== undefined

/** What is wrong with the value of a scalar; undefined if it is valid. */
export const valueFault = (scalar: Scalar, value: unknown): ValueFault | undefined => {
  switch (scalar.kind) {
    case 'boolean':
      return typeof value === 'boolean' || value === scalar.words[0] || value === scalar.words[1]
        ? undefined
        : { reason: 'FieldValueTypeInvalid', message: `must be true or false, not ${shown(value)}` }
    case 'enumeration':
      return enumerationFault(scalar, value)
    case 'integer':
      return integerFault(scalar, value)
    case 'decimal':
      return (typeof value === 'number' && Number.isFinite(value) && !String(value).includes('e')) ||
        (typeof value === 'string' && /^-?\d{1,40}(?:\.\d{1,40})?$/.test(value))
        ? undefined
        : { reason: 'FieldValueTypeInvalid', message: `must be a number, not ${shown(value)}` }
    default:
      return typeof value === 'string' ? textFault(scalar, value) : notText(value)
  }
}

const enumerationFault = ({ values }: Kind<'enumeration'>, value: unknown): ValueFault | undefined => {
  if (
    typeof value === 'string'
      ? values.includes(value)
      : typeof value === 'boolean' && wordOf(values, value) !== undefined
  )
    return undefined
  const near = typeof value === 'string' ? nearest(value, values) : undefined
  return {
    reason: typeof value === 'string' ? 'FieldValueNotSupported' : 'FieldValueTypeInvalid',
    message: `supported values: ${values.map((word) => JSON.stringify(word)).join(', ')}`,
    ...(near === undefined ? {} : { suggestion: `did you mean ${JSON.stringify(near)}?` }),
  }
}

const integerFault = (scalar: Kind<'integer'>, value: unknown): ValueFault | undefined => {
  const { min, max, words = [] } = scalar
  if (typeof value === 'string' && words.includes(value)) return undefined
  if (typeof value !== 'number' && typeof value !== 'string') {
    return { reason: 'FieldValueTypeInvalid', message: `must be ${integerWords(scalar)}, not ${shown(value)}` }
  }
  if (typeof value === 'number' && Number.isInteger(value) && !Number.isSafeInteger(value)) {
    return { reason: 'FieldValueInvalid', message: 'is too large to be exact as a number: write it as a string' }
  }
  const number = integerOf(value, readsHex(scalar))
  if (number === undefined) return notAnInteger(scalar, String(value))
  if (scalar.readAsHex && typeof value === 'string' && number > 9n && !isPrefixed(value)) {
    return {
      reason: 'FieldValueInvalid',
      message: 'must begin with 0x, because libvirt reads it as hex',
      suggestion: `did you mean "0x${value}"?`,
    }
  }
  if (min !== undefined && number < min) return { reason: 'FieldValueInvalid', message: `must be at least ${min}` }
  if (max !== undefined && number > max) return { reason: 'FieldValueInvalid', message: `must be at most ${max}` }
  return undefined
}

const isPrefixed = (text: string): boolean => /^0x/i.test(text)

const notAnInteger = (scalar: Kind<'integer'>, text: string): ValueFault => {
  const plain = text.replace(/^(-?)0+(?=\d)/, '$1')
  const isHex = !readsHex(scalar) && /^0x[0-9a-f]{1,16}$/i.test(text)
  const isPadded = plain !== text && /^-?\d{1,20}$/.test(plain)
  return {
    reason: 'FieldValueInvalid',
    message: `must be ${integerWords(scalar)}${isPadded ? ' without leading zeros' : ''}`,
    ...(isHex || isPadded ? { suggestion: `did you mean ${isHex ? BigInt(text) : plain}?` } : {}),
  }
}

const integerWords = ({ words = [] }: Kind<'integer'>): string =>
  ['an integer', ...words.map((word) => JSON.stringify(word))].join(' or ')

const textFault = (
  scalar: Exclude<Scalar, Kind<'boolean' | 'enumeration' | 'integer' | 'decimal'>>,
  value: string,
): ValueFault | undefined => {
  const limits = limitsOf(scalar)
  if (limits && !isLongerThan(limits.maxBytes, value) && limits.isAllowed(value)) return undefined
  if (!xmlText.test(value)) return { reason: 'FieldValueInvalid', message: 'has a character that XML cannot hold' }
  if (scalar.kind === 'uuid' && value === '' && scalar.mayBeEmpty) return undefined
  if (scalar.kind === 'cpuset') {
    return isCpuset(value)
      ? undefined
      : { reason: 'FieldValueInvalid', message: 'must be a list of numbers and ranges, e.g. 0-3,^2,8' }
  }
  if (scalar.kind === 'ip') {
    return isAddress(value) ? undefined : { reason: 'FieldValueInvalid', message: 'must be an IP address' }
  }
  if (limits) {
    if (isLongerThan(limits.maxBytes, value)) return tooLong(limits.maxBytes, 'bytes')
    return { reason: 'FieldValueInvalid', message: `must be ${limits.allowed}` }
  }
  const known = patterns[scalar.kind]
  if (!known) return undefined
  if (value.length > maxTextLength) return tooLong(maxTextLength, 'characters')
  if (known.pattern.test(value)) return undefined
  const near = scalar.kind === 'unit' ? nearest(value, units) : undefined
  return {
    reason: 'FieldValueInvalid',
    message: known.message,
    ...(near === undefined ? {} : { suggestion: `did you mean ${JSON.stringify(near)}?` }),
  }
}

const tooLong = (max: number, unit: 'bytes' | 'characters'): ValueFault => ({
  reason: 'FieldValueTooLong',
  message: `must be at most ${max} ${unit} long`,
})

/** A UTF-16 unit takes one to three bytes of UTF-8, so the length alone is sufficient for almost every text. */
const isLongerThan = (bytes: number, value: string): boolean =>
  value.length > bytes || (value.length * 3 > bytes && Buffer.byteLength(value) > bytes)

/** The allowed values of a text, path or host name. */
interface Limits {
  /** Completes "must be". */
  readonly allowed: string
  readonly maxBytes: number
  /** Never true for a text that XML cannot represent. */
  readonly isAllowed: (value: string) => boolean
}

export const limitsOf = (scalar: Scalar): Limits | undefined => {
  const known = knownLimits.get(scalar)
  if (known) return known
  const limits = makeLimits(scalar)
  if (limits) knownLimits.set(scalar, limits)
  return limits
}

const knownLimits = new WeakMap<Scalar, Limits>()

const makeLimits = (scalar: Scalar): Limits | undefined => {
  switch (scalar.kind) {
    case 'text': {
      const { allowed, maxBytes, pattern } = scalar
      const expression = compiled(pattern)
      return { allowed, maxBytes, isAllowed: (value) => expression.test(value) }
    }
    case 'path':
      return {
        allowed: 'an absolute path without control characters',
        maxBytes: scalar.maxBytes,
        isAllowed: (value) => absolutePath.test(value),
      }
    case 'hostName':
      return {
        allowed: 'an IP address, or a host name of letters, digits, `-` and `.`',
        maxBytes: 255,
        isAllowed: (value) => dnsName.test(value) || isAddress(value),
      }
    default:
      return undefined
  }
}

const absolutePath = new RegExp(`^/[^${control}]*$`, 'u')
const dnsName = /^[A-Za-z0-9.][A-Za-z0-9.-]*$/

const octet = '(?:25[0-5]|2[0-4]\\d|1\\d\\d|[1-9]?\\d)'
const ipv4 = new RegExp(`^${octet}(?:\\.${octet}){3}$`)

/** IPv4 in dotted form. IPv6 in groups: at most one `::`, and the last two groups may be in IPv4 form. */
const isAddress = (text: string): boolean => {
  if (ipv4.test(text)) return true
  if (text.length > 45) return false
  const lastColon = text.lastIndexOf(':')
  const last = text.slice(lastColon + 1)
  const whole = ipv4.test(last) ? `${text.slice(0, lastColon)}:0:0` : text
  const halves = whole.split('::')
  if (halves.length > 2) return false
  const groups = halves.flatMap((half) => (half === '' ? [] : half.split(':')))
  return (
    groups.every((group) => /^[0-9a-f]{1,4}$/i.test(group)) &&
    (halves.length === 2 ? groups.length < 8 : groups.length === 8)
  )
}

const notText = (value: unknown): ValueFault => ({
  reason: 'FieldValueTypeInvalid',
  message: `must be a string, not ${shown(value)}`,
  ...(typeof value === 'number' || typeof value === 'boolean' ? { suggestion: quoted(value) } : {}),
})

const shown = (value: unknown): string => {
  if (value === null) return 'null'
  if (Array.isArray(value)) return 'a list'
  return typeof value === 'object' ? 'an object' : typeof value === 'string' ? 'that string' : `a ${typeof value}`
}

const expressions = new Map<string, RegExp>()

const compiled = (pattern: string): RegExp => {
  const known = expressions.get(pattern) ?? new RegExp(pattern, 'u')
  expressions.set(pattern, known)
  return known
}

type Siblings = { readonly [key: string]: unknown }

/**
 * libvirt's own spelling of a value: words as booleans; numbers as JSON numbers, or as strings beyond 2^53; hex, MAC
 * addresses and UUIDs in lower case and full width; sets of CPUs ascending. An invalid value is unchanged.
 * @param siblings the fields beside it, which decide about hex in some elements
 */
export const canonicalValue = (scalar: Scalar, value: unknown, siblings: Siblings = {}): unknown => {
  switch (scalar.kind) {
    case 'boolean':
      return value === scalar.words[0] ? true : value === scalar.words[1] ? false : value
    case 'enumeration':
      return typeof value === 'boolean' ? (wordOf(scalar.values, value) ?? value) : value
    case 'integer': {
      const digits = hexDigits(scalar, siblings)
      if (digits === undefined && typeof value === 'number') return value
      const number = integerOf(value, readsHex(scalar))
      if (number === undefined) return value
      if (digits !== undefined && number >= 0n) return hexText(number, digits, scalar.hexUpperCase)
      return exactNumber(number)
    }
    case 'decimal':
      return typeof value === 'string' && String(Number(value)) === value ? Number(value) : value
    case 'mac':
      return typeof value === 'string' && value.length < 18
        ? value.toLowerCase().replaceAll(/(?<=^|:)[0-9a-f](?=:|$)/g, '0$&')
        : value
    case 'uuid':
      return canonicalUuid(value)
    case 'wwn':
      return typeof value === 'string' ? value.toLowerCase() : value
    case 'cpuset':
      return typeof value === 'string' ? canonicalCpuset(value) : value
    default:
      return value
  }
}

/** A JSON number if it is exact, otherwise a decimal string. */
export const exactNumber = (number: bigint): number | string => {
  const double = Number(number)
  return Number.isSafeInteger(double) ? double : number.toString()
}

const hexText = (number: bigint, digits: number, isUpperCase = false): string => {
  const text = number.toString(16).padStart(digits, '0')
  return `0x${isUpperCase ? text.toUpperCase() : text}`
}

const hexDigits = ({ hexDigits, hexFor, hexBeside }: Kind<'integer'>, siblings: Siblings): number | undefined => {
  const { type } = siblings
  if (hexFor && typeof type === 'string' && Object.hasOwn(hexFor, type)) return hexFor[type]
  const beside = hexBeside && Object.keys(hexBeside).find((key) => Object.hasOwn(siblings, key))
  return beside === undefined ? hexDigits : hexBeside?.[beside]
}

const canonicalUuid = (value: unknown): unknown => {
  if (typeof value !== 'string' || /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/.test(value)) return value
  const digits = value.toLowerCase().replaceAll('-', '')
  return /^[0-9a-f]{32}$/.test(digits) ? digits.replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, '$1-$2-$3-$4-$5') : value
}
