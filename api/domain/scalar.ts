import type { Text } from './text.ts'

/**
 * The kinds of value of an attribute or text in libvirt's Domain XML, as data. The schema, validation, both
 * conversions, the canonical spelling and test arbitraries are derived from it.
 *
 * In JSON, text, enumerations and everything with its own syntax are strings. yes/no and on/off are booleans; the words
 * are accepted too. Integers are numbers; a decimal string is accepted as equal, and is required beyond 2^53.
 */
export type Scalar =
  | Text
  /** Absolute. `maxBytes`: in UTF-8, without the terminating NUL. */
  | { readonly kind: 'path'; readonly maxBytes: number }
  | { readonly kind: 'enumeration'; readonly values: readonly string[] }
  /** `words` are the XML's words for true and false. */
  | { readonly kind: 'boolean'; readonly words: readonly ['yes', 'no'] | readonly ['on', 'off'] }
  /**
   * Bounds are inclusive; a bigint beyond 2^53. `hexDigits`: libvirt writes it in hex, padded to this width. `hexFor`:
   * the same, only if the sibling `type` has one of these values. `hexBeside`: the same, only if this sibling exists
   * (`{}`: hex is accepted but never written). `readAsHex`: libvirt reads hex even without 0x, so that `10` is sixteen.
   * A text needs the prefix; a number is written with it. `words` are allowed instead of a number.
   */
  | {
      readonly kind: 'integer'
      readonly min?: number | bigint
      readonly max?: number | bigint
      readonly hexDigits?: number
      readonly hexUpperCase?: true
      readonly readAsHex?: true
      readonly hexFor?: { readonly [type: string]: number }
      readonly hexBeside?: { readonly [sibling: string]: number }
      readonly words?: readonly string[]
    }
  | { readonly kind: 'decimal' }
  | { readonly kind: 'uuid'; readonly mayBeEmpty?: true }
  | { readonly kind: 'mac' | 'cpuset' | 'ip' | 'hostName' | 'unit' | 'timestamp' | 'pciClass' | 'wwn' | 'bytes' }

export type ScalarInput<S extends Scalar> = S extends { kind: 'enumeration'; values: readonly (infer V)[] }
  ? V
  : S extends { kind: 'boolean' }
    ? boolean
    : S extends { kind: 'integer' | 'decimal' }
      ? number | string
      : string

export const oneOf = <const V extends readonly string[]>(...values: V) => ({ kind: 'enumeration', values }) as const
export const yesNo = { kind: 'boolean', words: ['yes', 'no'] } as const
export const onOff = { kind: 'boolean', words: ['on', 'off'] } as const
export const integer = (bounds: { min?: number | bigint; max?: number | bigint; words?: readonly string[] } = {}) =>
  ({ kind: 'integer', ...bounds }) as const
/** Written in hex by libvirt, `digits` wide (`0x0000:0x00:0x1f.0x7`). */
export const hex = (digits: number, max: number | bigint) =>
  ({ kind: 'integer', min: 0, max, hexDigits: digits }) as const
/** As `hex`, and libvirt reads hex even without 0x. */
export const bareHex = (digits: number, max: number | bigint) => ({ ...hex(digits, max), readAsHex: true }) as const
export const uint8 = integer({ min: 0, max: 255 })
export const uint16 = integer({ min: 0, max: 65_535 })
export const uint32 = integer({ min: 0, max: 4_294_967_295 })
/** For values that must be at least 1 in libvirt's schema. */
export const positive32 = integer({ min: 1, max: 4_294_967_295 })
export const uint64 = integer({ min: 0, max: 18_446_744_073_709_551_615n })
export const int32 = integer({ min: -2_147_483_648, max: 2_147_483_647 })
export const int64 = integer({ min: -9_223_372_036_854_775_808n, max: 9_223_372_036_854_775_807n })
export const port = integer({ min: -1, max: 65_535 })
export const decimal = { kind: 'decimal' } as const
export const uuid = { kind: 'uuid' } as const
export const mac = { kind: 'mac' } as const
/** An absolute path of the host or pod; `reach` states which. Linux: PATH_MAX is 4096 with the terminating NUL. */
export const path = { kind: 'path', maxBytes: 4095 } as const
/** The path of a Unix socket. Linux: `sun_path` has 108 bytes with the terminating NUL. */
export const socketPath = { kind: 'path', maxBytes: 107 } as const
/** `0-3,^2,8`. */
export const cpuset = { kind: 'cpuset' } as const
/** Base 64, possibly with white space from line breaks. */
export const base64 = { kind: 'bytes' } as const
export const ip = { kind: 'ip' } as const
/** A DNS name or an IP address. */
export const hostName = { kind: 'hostName' } as const
/** A unit of memory or storage: b, bytes, KB, k, KiB, MB, M, MiB, … up to E. */
export const unit = { kind: 'unit' } as const

/** The JSON of a scalar. */
export type ScalarValue = string | number | boolean

/**
 * The JSON of a text from XML. It is a number or boolean only if printing it yields the same text: `0x10`, `007` and
 * numbers beyond 2^53 remain strings, as does text of the wrong kind (validation reports it later).
 */
export const fromXml = (scalar: Scalar, xml: string): ScalarValue => {
  switch (scalar.kind) {
    case 'boolean':
      return xml === scalar.words[0] ? true : xml === scalar.words[1] ? false : xml
    case 'integer': {
      if (scalar.readAsHex && bareHexText.test(xml)) return `0x${xml}`
      const value = Number(xml)
      return Number.isSafeInteger(value) && String(value) === xml ? value : xml
    }
    case 'decimal': {
      const value = Number(xml)
      return plainDecimal.test(xml) && String(value) === xml ? value : xml
    }
    default:
      return xml
  }
}

/** Hex without a prefix, except a single decimal digit, which needs none. */
const bareHexText = /^(?:[0-9a-f]{2,}|[a-f])$/i

/** Without an exponent, which libvirt does not accept. */
const plainDecimal = /^-?\d+(?:\.\d+)?$/

/** The XML text of a JSON value: unchanged, but for a number that libvirt would read as hex. */
export const toXml = (scalar: Scalar, value: ScalarValue): string => {
  if (typeof value === 'number' && scalar.kind === 'integer' && scalar.readAsHex) return `0x${value.toString(16)}`
  if (typeof value !== 'boolean') return String(value)
  if (scalar.kind === 'boolean') return scalar.words[value ? 0 : 1]
  return (scalar.kind === 'enumeration' ? wordOf(scalar.values, value) : undefined) ?? String(value)
}

/** If YAML parsed the bare word `on` or `no` of an enumeration as a boolean, the intended word. */
export const wordOf = (values: readonly string[], value: boolean): string | undefined =>
  (value ? ['on', 'yes'] : ['off', 'no']).find((word) => values.includes(word))
