import { expect, test } from 'vitest'
import { elementOf, xmlName, type Element, type Field } from '../../api/domain/description.ts'
import { domain } from '../../api/domain/domain.ts'

/** Every element once, with one of its paths. */
const elements = new Map<Element, string>()
const collect = (element: Element, path: string): void => {
  if (elements.has(element)) return
  elements.set(element, path)
  for (const [key, field] of Object.entries(element.fields)) {
    if (field.at === 'child' || field.at === 'children') collect(elementOf(field), `${path}.${key}`)
  }
}
collect(domain, 'domain')

/** The fault of each element and field by path; undefined if it has none. */
const faults = (faultOf: (element: Element) => readonly (string | undefined)[]): readonly string[] =>
  [...elements].flatMap(([element, path]) =>
    faultOf(element).flatMap((fault) => (fault === undefined ? [] : [`${path}: ${fault}`])),
  )

const fieldFaults = (faultOf: (key: string, field: Field) => string | undefined): readonly string[] =>
  faults((element) => Object.entries(element.fields).map(([key, field]) => faultOf(key, field)))

/** The field at a path of keys below an element. */
const below = (element: Element, path: string): Field | undefined => {
  const [key = '', ...rest] = path.split('.')
  const field = Object.hasOwn(element.fields, key) ? element.fields[key] : undefined
  if (rest.length === 0 || !field) return field
  return field.at === 'child' || field.at === 'children' ? below(elementOf(field), rest.join('.')) : undefined
}

const isScalar = (field: Field | undefined): boolean =>
  field?.at === 'attribute' || field?.at === 'leaf' || field?.at === 'content'

test('every field has a sentence for `kubectl explain`', () => {
  const isSentence = (text: string): boolean => /^\S.*[.:)]$/s.test(text) && text.length <= 160
  expect(
    faults(({ description }) => [description === '' || isSentence(description) ? undefined : description]),
  ).toEqual([])
  expect(
    fieldFaults((key, { description }) => (isSentence(description) ? undefined : `${key}: ${description}`)),
  ).toEqual([])
})

test('keys are camelCase', () => {
  expect(fieldFaults((key) => (/^[a-z][A-Za-z0-9]*$/.test(key) ? undefined : key))).toEqual([])
})

test('attributes and elements of an element have different names, and fields different keys', () => {
  const repeated = (names: readonly string[]): string | undefined =>
    names.find((name, index) => names.indexOf(name) !== index)
  expect(
    faults(({ fields }) => {
      const all = Object.entries(fields)
      const named = (isAttribute: boolean): string[] =>
        all
          .filter(([, field]) => field.at !== 'content' && (field.at === 'attribute') === isAttribute)
          .map(([key, field]) => xmlName(key, field))
      const singles = all.flatMap(([, field]) => (field.at === 'children' ? (field.single ?? []) : []))
      return [repeated(named(true)), repeated(named(false)), repeated([...Object.keys(fields), ...singles])]
    }),
  ).toEqual([])
})

test('a value on which a reach depends is one of the allowed values', () => {
  expect(
    fieldFaults((key, field) => {
      const words = Object.keys(field.reachOf ?? {})
      if (words.length === 0) return undefined
      const allowed =
        'scalar' in field && field.scalar.kind === 'enumeration'
          ? (field.scalar.values satisfies readonly string[])
          : []
      const unknown = words.find((word) => !allowed.includes(word))
      return unknown === undefined ? undefined : `${key}: ${unknown}`
    }),
  ).toEqual([])
})

test('items of a list are identified by scalars that they have', () => {
  expect(
    fieldFaults((key, field) => {
      if (field.at !== 'children') return undefined
      const wrong = (field.key ?? []).flat().find((path) => !isScalar(below(elementOf(field), path)))
      return wrong === undefined ? undefined : `${key}: ${wrong}`
    }),
  ).toEqual([])
})

test('a union names the fields of each value, and each field belongs to a value', () => {
  expect(
    faults((element) => {
      const { union } = element
      if (!union) return []
      const by = below(element, union.by)
      const values = by && 'scalar' in by && by.scalar.kind === 'enumeration' ? by.scalar.values : []
      const branches = Object.entries(union.branches ?? {})
      const paths = branches.flatMap(([, list]) => list)
      const owned = union.owns.flatMap((key) => {
        const field = element.fields[key]
        return field && union.branches && (field.at === 'child' || field.at === 'children')
          ? paths.some((path) => path === key)
            ? [key]
            : Object.keys(elementOf(field).fields).map((name) => `${key}.${name}`)
          : [key]
      })
      return [
        values.length === 0 ? `${union.by} is not an enumeration` : undefined,
        ...union.owns.filter((key) => !below(element, key)).map((key) => `owns ${key}, which is not a field`),
        ...paths.filter((path) => !below(element, path)).map((path) => `${path} is not a field`),
        ...(union.branches
          ? [
              ...values.filter((value) => !branches.some(([name]) => name === value)).map((value) => `has no ${value}`),
              ...branches.filter(([name]) => !values.includes(name)).map(([name]) => `knows ${name}`),
              ...owned.filter((path) => !paths.includes(path)).map((path) => `${path} never counts`),
            ]
          : []),
      ]
    }),
  ).toEqual([])
})

test('a size has only a value and a unit', () => {
  expect(
    faults((element) =>
      element.scale && !(below(element, element.scale.value) && below(element, element.scale.unit))
        ? ['has no part']
        : [],
    ),
  ).toEqual([])
})
