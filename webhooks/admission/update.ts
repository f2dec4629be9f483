import type { Cause } from '../../api/cause.ts'
import { joinPath, parentPath, withPathsAbove } from '../../api/path.ts'
import { isRecord } from '../../api/schema.ts'
import { shorten } from '../../api/shorten.ts'
import { completedByAnnotation, type VirtualMachine } from '../../api/virtual-machine.ts'
import { enforcerOf } from '../../completion/media.ts'
import { originOf } from '../../completion/origins.ts'
import { decodeProvenance, type Origins } from '../../completion/provenance.ts'
import type { Shortened } from '../../presets/origins.ts'
import { originLabel } from '../../presets/source.ts'

/** The origins of the values of a stored spec. Paths are in kubectl's form. */
export interface RecordedOrigins {
  /** The labels, annotations and media that presets enforce. */
  readonly enforced: Origins
  /** Whether the user wrote the leaf at this path. */
  readonly isUsers: (path: string) => boolean
  /** Whether a preset overrode the user's value at this path, and that value may have been `value`. */
  isOverridden(path: string, value: unknown): boolean
  /** Whether a preset removed the user's value at this path. */
  readonly isRemoved: (path: string) => boolean
  /** Whether a preset overrode or removed a value at this path or below it. */
  readonly hasLost: (path: string) => boolean
  /** The lists that lost items of the user, by path. */
  readonly shortened: ReadonlyMap<string, Shortened>
}

/**
 * Reads the provenance annotation. Without a readable one, every value counts as the user's, and none may be omitted.
 */
export function recordedOrigins({ metadata }: VirtualMachine): RecordedOrigins {
  const provenance = decodeProvenance(metadata.annotations?.[completedByAnnotation] ?? '')
  if (provenance === undefined) return nothingRecorded
  const { origins, overridden, removed, enforced, shortened } = provenance
  const lost = new Map(
    [...overridden].flatMap(([path, values]) => {
      const users = values.find(({ origin }) => origin.by === 'user')
      return users === undefined ? [] : partsOf(users.value, path)
    }),
  )
  let lostPaths: ReadonlySet<string> | undefined
  return {
    enforced,
    shortened,
    isUsers: (path) => originOf(origins, path).by === 'user',
    // A value that was too long to be recorded may have been any value.
    isOverridden: (path, value) => {
      const known = lost.get(path)
      return lost.has(path) && (known === undefined || isSameValue(known, value))
    },
    isRemoved: (path) => removed.has(path),
    // Few manifests need it.
    hasLost: (path) => (lostPaths ??= withPathsAbove([...lost.keys(), ...removed.keys()])).has(path),
  }
}

/**
 * A value with its members, by path. A value and its unit are overridden together, but a merge patch of the value leaves
 * the unit that is stored.
 */
function partsOf(value: unknown, path: string, level = 0): (readonly [string, unknown])[] {
  const members = isRecord(value) && level < mostLevels ? Object.entries(value) : []
  return [[path, value], ...members.flatMap(([key, member]) => partsOf(member, joinPath(path, key), level + 1))]
}

/** Values that are overridden as a whole have fewer. A VM that was stored without the webhooks can have any. */
const mostLevels = 8

/** Every value is the user's. */
export const nothingRecorded: RecordedOrigins = {
  enforced: new Map(),
  shortened: new Map(),
  isUsers: () => true,
  isOverridden: () => false,
  isRemoved: () => false,
  hasLost: () => false,
}

/** The number of differences that are reported individually. */
const maxDifferences = 50

/** The number of others that are counted. Beyond that, the comparison ends: a request can have 200,000 of them. */
const maxCounted = 1000

/** The number of characters of a value that a cause shows. */
const maxValue = 60

/**
 * Compares a sent spec with the stored one, which is immutable (but for media: completion/media.ts). A manifest in git contains only what its author wrote
 * and must be applicable repeatedly, so `sent` may omit what completion added; `restored` contains it. Items are
 * compared by index, because completion appends to lists; `sent` must not contain those that presets removed
 * (removed-items.ts). Every other difference is a cause, except a user's value that
 * a preset overrode. A value that the user wrote must not be omitted.
 */
export function restoreSpec(
  sent: unknown,
  stored: unknown,
  origins: RecordedOrigins,
): { readonly restored: unknown } | { readonly causes: Cause[] } {
  const found: Differences = { causes: [], more: 0 }
  compare(sent, stored, 'spec', origins, found)
  const { causes, more } = found
  if (causes.length === 0) return { restored: stored }
  const shown = causes.map((cause) => namingEnforcer(cause, origins))
  if (more === 0) return { causes: shown }
  const count = isFull(found) ? `at least ${more}` : `${more}`
  return { causes: [...shown, immutable('spec', undefined, `has ${count} more differences`)] }
}

/** The differences found so far: causes for the first of them, and the number of the others. */
interface Differences {
  readonly causes: Cause[]
  more: number
}

const isFull = ({ more }: Differences): boolean => more === maxCounted

function report(found: Differences, make: () => Cause): void {
  if (found.causes.length < maxDifferences) found.causes.push(make())
  else found.more += 1
}

function compare(sent: unknown, stored: unknown, field: string, origins: RecordedOrigins, found: Differences): void {
  if (origins.isOverridden(field, sent)) return
  // Earlier versions did not record which items a list lost: another one can be at the index of one that was removed.
  const isAligned = origins.shortened.has(parentPath(field))
  if (origins.isRemoved(field) && !isAligned && !hasUsersLeaf(stored, field, origins)) return
  if (isRecord(sent) && isRecord(stored)) return compareMembers(sent, stored, field, origins, found)
  if (Array.isArray(sent) && Array.isArray(stored)) return compareItems(sent, stored, field, origins, found)
  if (isSameScalar(sent, stored)) return
  report(found, () => immutable(field, sent, `cannot be changed from ${valueText(stored)}`))
}

type Members = Readonly<Record<string, unknown>>

function compareMembers(
  sent: Members,
  stored: Members,
  field: string,
  origins: RecordedOrigins,
  found: Differences,
): void {
  for (const key of Object.keys(sent)) {
    if (isFull(found)) return
    const at = joinPath(field, key)
    if (Object.hasOwn(stored, key)) compare(sent[key], stored[key], at, origins, found)
    else compareLost(sent[key], at, origins, found)
  }
  for (const key of Object.keys(stored)) {
    if (isFull(found)) return
    if (!Object.hasOwn(sent, key)) reportMissing(stored[key], joinPath(field, key), origins, found)
  }
}

/** A value that is not stored: what a preset overrode or removed, or an object of which it removed everything. */
function compareLost(sent: unknown, field: string, origins: RecordedOrigins, found: Differences): void {
  if (origins.isOverridden(field, sent) || origins.isRemoved(field)) return
  const isEmptied = isRecord(sent) && Object.keys(sent).length > 0 && origins.hasLost(field)
  if (isEmptied) compareMembers(sent, {}, field, origins, found)
  else report(found, () => added(field, sent))
}

function compareItems(
  sent: readonly unknown[],
  stored: readonly unknown[],
  field: string,
  origins: RecordedOrigins,
  found: Differences,
): void {
  for (let index = 0; index < Math.max(sent.length, stored.length); index++) {
    if (isFull(found)) return
    const at = joinPath(field, index)
    if (index >= stored.length) report(found, () => added(at, sent[index]))
    else if (index >= sent.length) reportMissing(stored[index], at, origins, found)
    else compare(sent[index], stored[index], at, origins, found)
  }
}

/** A medium could be changed, were it not for the preset that enforces it. */
function namingEnforcer(cause: Cause, origins: RecordedOrigins): Cause {
  const [medium] = /^spec\.domain\.devices\.disks\[\d+\]\.source(?=\.volume$|$)/.exec(cause.field) ?? []
  const origin = medium === undefined ? undefined : enforcerOf(origins, `${medium}.volume`)
  if (origin === undefined) return cause
  return { ...cause, message: `cannot be changed: preset "${originLabel(origin)}" enforces it` }
}

const added = (field: string, value: unknown): Cause => immutable(field, value, 'cannot be added')

/** One cause for the whole subtree, if the user wrote any leaf of it. */
function reportMissing(stored: unknown, field: string, origins: RecordedOrigins, found: Differences): void {
  if (!hasUsersLeaf(stored, field, origins)) return
  report(found, () => immutable(field, undefined, `cannot be removed (${valueText(stored)})`))
}

function hasUsersLeaf(stored: unknown, path: string, origins: RecordedOrigins): boolean {
  if (Array.isArray(stored)) return stored.some((item, index) => hasUsersLeaf(item, joinPath(path, index), origins))
  if (isRecord(stored)) {
    return Object.entries(stored).some(([key, item]) => hasUsersLeaf(item, joinPath(path, key), origins))
  }
  return origins.isUsers(path)
}

/** Whether two values are equal, except for the spelling of scalars. */
export function isSameValue(left: unknown, right: unknown): boolean {
  if (Array.isArray(left) && Array.isArray(right)) {
    return left.length === right.length && left.every((item, index) => isSameValue(item, right[index]))
  }
  if (!isRecord(left) || !isRecord(right)) return isSameScalar(left, right)
  const keys = Object.keys(left)
  return (
    keys.length === Object.keys(right).length &&
    keys.every((key) => Object.hasOwn(right, key) && isSameValue(left[key], right[key]))
  )
}

/** The API treats a decimal string as its number, and yes, no, on and off as booleans. */
const isSameScalar = (left: unknown, right: unknown): boolean =>
  left === right || (isScalar(left) && isScalar(right) && plain(left) === plain(right))

const isScalar = (value: unknown): value is string | number | boolean =>
  typeof value === 'string' || typeof value === 'number' || typeof value === 'boolean'

const booleans: ReadonlyMap<string, string> = new Map([
  ['yes', 'true'],
  ['on', 'true'],
  ['no', 'false'],
  ['off', 'false'],
])

const plain = (value: string | number | boolean): string => booleans.get(String(value)) ?? String(value)

const valueText = (value: unknown): string => shorten(JSON.stringify(value), maxValue)

const immutable = (field: string, value: unknown, message: string): Cause => ({
  rule: 'spec-immutable',
  field,
  ...(value === undefined ? {} : { value }),
  reason: value === undefined ? 'FieldValueForbidden' : 'FieldValueInvalid',
  message: `${message}: a VM's spec is immutable after creation`,
})
