import fc from 'fast-check'
import { elementOf, type Element, type Field } from '../../api/domain/description.ts'
import { domain as root, type Domain } from '../../api/domain/domain.ts'
import type { Scalar } from '../../api/domain/scalar.ts'
import { isRecord } from '../../api/schema.ts'

type Json = { readonly [key: string]: unknown }

/** An element of a domain: its description, its value, and a function that replaces its value. */
interface Holder {
  readonly element: Element
  readonly value: Json
  readonly replaced: (value: Json) => Json
}

/**
 * Domains that differ from the given ones in one or two fields, which are missing, at a limit, empty, or have another
 * value of the description. They find values that a rule does not consider.
 */
export const neighbors = (domains: readonly Domain[]): fc.Arbitrary<Domain> =>
  fc
    .tuple(
      fc.constantFrom<Json>(...domains),
      fc.array(fc.tuple(fc.nat(), fc.nat(), fc.nat()), { minLength: 1, maxLength: 2 }),
    )
    // Fields and values come from the description.
    .map(([domain, changes]) => changes.reduce((changed, chosen) => changedBy(changed, chosen), domain) as Domain)

const changedBy = (domain: Json, [place, key, value]: readonly [number, number, number]): Json => {
  const holders = holdersOf(root, domain, (changed) => changed)
  const { element, value: holder, replaced } = pick(holders, place)
  const changes = [
    ...removals(holder),
    ...Object.entries(element.fields).flatMap(([name, field]) => valuesOf(name, field, holder)),
  ]
  if (changes.length === 0) return domain
  const present = changes.filter((change) => change.isPresent)
  const chosen = pick(present.length > 0 && key % 4 > 0 ? present : changes, value)
  const { [chosen.key]: _, ...rest } = holder
  return replaced(chosen.value === undefined ? rest : { ...holder, [chosen.key]: chosen.value })
}

const pick = <T>(items: readonly T[], number: number): T => {
  const item = items[number % items.length]
  if (item === undefined) throw new Error('nothing to pick from')
  return item
}

const holdersOf = (element: Element, value: Json, replaced: (value: Json) => Json): Holder[] => [
  { element, value, replaced },
  ...Object.entries(value).flatMap(([key, member]): Holder[] => {
    const { [key]: field } = element.fields
    if (field?.at !== 'child' && field?.at !== 'children') return []
    const below = elementOf(field)
    if (isRecord(member)) return holdersOf(below, member, (changed) => replaced({ ...value, [key]: changed }))
    if (!Array.isArray(member)) return []
    return member.flatMap((item: unknown, index) =>
      isRecord(item)
        ? holdersOf(below, item, (changed) => replaced({ ...value, [key]: member.with(index, changed) }))
        : [],
    )
  }),
]

interface Change {
  readonly key: string
  /** Absent: the field is removed. */
  readonly value?: unknown
  readonly isPresent: boolean
}

const removals = (holder: Json): Change[] => Object.keys(holder).map((key) => ({ key, isPresent: true }))

const valuesOf = (key: string, field: Field, holder: Json): Change[] => {
  const { [key]: present } = holder
  const change = (value: unknown): Change => ({ key, value, isPresent: present !== undefined })
  if (field.at === 'attribute' || field.at === 'content' || field.at === 'leaf')
    return scalarValues(field.scalar, present).map(change)
  if (field.at === 'child' && present === undefined) return [change({})]
  if (field.at === 'children' && present === undefined) return [change([{}])]
  if (field.at === 'children' && Array.isArray(present) && present.length > 0) return [change([...present, present[0]])]
  return []
}

const scalarValues = (scalar: Scalar, present: unknown): unknown[] => {
  switch (scalar.kind) {
    case 'boolean':
      return [true, false]
    case 'enumeration':
      return [...scalar.values]
    case 'integer': {
      const { min, max, words = [] } = scalar
      const near = typeof present === 'number' ? [present - 1, present + 1, present * 2] : [1, 2, 3, 16, 1024]
      const bounds = [min, max].flatMap((bound) => (bound === undefined ? [] : [String(bound)]))
      return [0, ...near, ...bounds, ...words].filter((one) => typeof one !== 'number' || one >= Number(min ?? -1))
    }
    case 'decimal':
      return [0, 0.5, 1]
    case 'text':
      return ['', 'a', '1']
    case 'path':
      return ['', '/a']
    case 'cpuset':
      return ['0', '0-1', '1', '^0', '0-7']
    case 'ip':
      return ['10.0.0.1', 'fd00::1', '0.0.0.0']
    case 'hostName':
      return ['a', '10.0.0.1', '']
    case 'unit':
      return ['b', 'KiB', 'GiB']
    case 'mac':
      return ['52:54:00:00:00:01', '00:00:00:00:00:00', '01:00:00:00:00:01']
    case 'uuid':
      return ['6f3c2a5e-8d1b-4c7f-9a2e-3b4d5c6e7f80']
    case 'timestamp':
      return ['2031-01-02T03:04:05Z']
    case 'pciClass':
      return ['0x030000']
    case 'wwn':
      return ['5000c50015ea71ac', '0000000000000000']
    case 'bytes':
      return ['', 'AAAA']
  }
}
