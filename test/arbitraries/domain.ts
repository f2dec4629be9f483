import fc from 'fast-check'
import { elementOf, maxItemsOf, type Element, type Field } from '../../api/domain/description.ts'
import { domain as root, type Domain } from '../../api/domain/domain.ts'
import { normalForeign } from '../../api/domain/foreign.ts'
import { exactNumber, valueFault } from '../../api/domain/scalar-value.ts'
import type { Scalar } from '../../api/domain/scalar.ts'
import { isTooLarge } from '../../api/domain/elements/size.ts'
import type { Text } from '../../api/domain/text.ts'

/** Below this depth only scalars are generated, so that recursive elements end. */
const maxDepth = 8

/**
 * Any JSON that the description allows, as an import from XML returns it: each value is valid, although libvirt may
 * refuse the whole. `fields`: the maximum number of fields of an element.
 */
export const domains = (limits: { fields?: number } = {}): fc.Arbitrary<Domain> =>
  elements(root, limits.fields ?? 6, 0).map((json) => json as Domain)

/** The same for one element of the description. */
export const elements = (element: Element, fields: number, depth: number): fc.Arbitrary<{ [key: string]: unknown }> => {
  const entries = Object.entries(element.fields).filter(([, field]) => depth < maxDepth || 'scalar' in field)
  return fc
    .subarray(entries, { maxLength: Math.min(entries.length, fields) })
    .chain((chosen) => fc.tuple(...chosen.map(([key, field]) => fieldEntries(key, field, fields, depth))))
    .map((pairs) => ofPossibleSize(element, Object.fromEntries(pairs)))
}

/** Replaces a value that is too large for its unit by one that is valid for every unit. */
const ofPossibleSize = ({ scale }: Element, json: { [key: string]: unknown }): { [key: string]: unknown } =>
  scale !== undefined && isTooLarge(scale, json[scale.value], json[scale.unit]) ? { ...json, [scale.value]: 15 } : json

const fieldEntries = (
  key: string,
  field: Field,
  fields: number,
  depth: number,
): fc.Arbitrary<readonly [string, unknown]> => {
  switch (field.at) {
    case 'attribute':
    case 'leaf':
      return scalars(field.scalar).map((value) => [key, value])
    case 'content':
      // Blank text beside attributes is dropped as white space; around text it can be.
      return scalars(field.scalar)
        .map((value) => (typeof value === 'string' ? value.trim() : value))
        .filter((value) => value !== '')
        .map((value) => [key, value])
    case 'leaves':
      return fc.array(scalars(field.scalar), { minLength: 1, maxLength: 3 }).map((value) => [key, value])
    case 'foreign':
      return foreignXml.map((value) => [key, value])
    case 'child':
      return elements(elementOf(field), fields, depth + 1).map((value) => [key, value])
    case 'children': {
      const { single } = field
      return fc
        .array(elements(elementOf(field), fields, depth + 1), {
          minLength: 1,
          maxLength: Math.min(3, maxItemsOf(field)),
        })
        .map((value) => (single !== undefined && value.length === 1 ? [single, value[0]] : [key, value]))
    }
  }
}

/** Valid values of a scalar: booleans and numbers as such, hex as text. */
export const scalars = (scalar: Scalar): fc.Arbitrary<string | number | boolean> => {
  switch (scalar.kind) {
    case 'boolean':
      return fc.boolean()
    case 'enumeration':
      return fc.constantFrom(...scalar.values)
    case 'integer': {
      const { min = -(2n ** 63n), max = 2n ** 64n - 1n, words = [] } = scalar
      const numbers = fc.bigInt({ min: BigInt(min), max: BigInt(max) }).map(exactNumber)
      const isHex =
        scalar.hexDigits !== undefined ||
        scalar.hexFor !== undefined ||
        scalar.hexBeside !== undefined ||
        scalar.hexBeside !== undefined
      const hex = fc
        .tuple(fc.bigInt({ min: 0n, max: BigInt(max) }), fc.integer({ min: 1, max: 8 }))
        .map(([value, digits]) => `0x${value.toString(16).padStart(digits, '0')}`)
      return fc.oneof(
        ...(scalar.readAsHex ? [] : [numbers]),
        ...(isHex ? [hex] : []),
        ...(words.length > 0 ? [fc.constantFrom(...words)] : []),
      )
    }
    case 'decimal':
      return fc
        .tuple(fc.integer({ min: -9999, max: 9999 }), fc.integer({ min: 0, max: 99 }))
        .map(([whole, part]) => Number(`${whole}.${part}`))
    case 'text':
      return texts(scalar)
    case 'uuid':
      return scalar.mayBeEmpty ? fc.oneof(fc.uuid(), fc.constant('')) : fc.uuid()
    case 'mac':
      return fc.stringMatching(/^([0-9a-f]{2}:){5}[0-9a-f]{2}$/)
    case 'path':
      return fc.stringMatching(/^(\/[a-zA-Z0-9._-]{1,8}){1,3}$/)
    case 'cpuset':
      return fc
        .array(fc.tuple(fc.nat(15), fc.nat(7)), { minLength: 1, maxLength: 3 })
        .map((ranges) =>
          ranges.map(([first, more]) => (more === 0 ? `${first}` : `${first}-${first + more}`)).join(','),
        )
    case 'hostName':
      return fc.oneof(fc.domain(), fc.ipV4(), fc.ipV6())
    case 'ip':
      return fc.oneof(fc.ipV4(), fc.ipV6())
    case 'unit':
      return fc.constantFrom('b', 'bytes', 'KB', 'k', 'KiB', 'MB', 'M', 'MiB', 'GB', 'G', 'GiB', 'TiB', 'PiB', 'EiB')
    case 'timestamp':
      return fc.constantFrom('2031-01-02T03:04:05Z', '2031-01-02T03:04:05.678+01:00')
    case 'pciClass':
      return fc.stringMatching(/^0x[0-9a-f]{6}$/)
    case 'wwn':
      return fc.stringMatching(/^[0-9a-f]{16}$/)
    case 'bytes':
      return fc.base64String()
  }
}

/** Every character that XML can contain, special ones more often. */
const characters = fc.oneof(
  { weight: 4, arbitrary: fc.constantFrom('&', '<', '>', '"', "'", '\t', '\n', '\r', ' ', ']', '{', '}') },
  { weight: 8, arbitrary: fc.string({ unit: 'grapheme-ascii', minLength: 1, maxLength: 1 }) },
  { weight: 2, arbitrary: fc.string({ unit: 'grapheme', minLength: 1, maxLength: 1 }) },
  { weight: 1, arbitrary: fc.constantFrom('&lt;', '&amp;', '&#10;', ']]>', '<!--', 'é', '😀') },
)

/** Texts with special characters, except those that the kind of text excludes. */
const texts = (of: Text): fc.Arbitrary<string> => {
  const matching = fc.stringMatching(new RegExp(of.pattern, 'u'))
  const any = of.pattern.includes('[^') ? fc.oneof(pieces, matching) : matching
  return any.filter((value) => valueFault(of, value) === undefined)
}

const pieces = fc.array(characters, { maxLength: 12 }).map((parts) => parts.join('').toWellFormed())

const foreignXml: fc.Arbitrary<string> = fc
  .tuple(fc.constantFrom('a', 'b:c'), pieces, pieces)
  .map(([name, attribute, text]) =>
    normalForeign(
      `<${name} xmlns${name.includes(':') ? ':b' : ''}="urn:x" y="${escaped(attribute)}"><z>${escaped(text)}</z><z/></${name}>`,
    ),
  )

const escaped = (text: string): string =>
  text
    .replaceAll('&', '&amp;')
    .replaceAll('<', '&lt;')
    .replaceAll('>', '&gt;')
    .replaceAll('"', '&quot;')
    .replaceAll(/[\t\n\r]/g, (character) => `&#${character.charCodeAt(0)};`)
