import { isRecord } from '../api/schema.ts'
import type { CompiledPreset } from './compile.ts'
import type { Selector } from './selector.ts'
import type { Structure } from './structure.ts'

/** Finds the presets that are worth comparing with one, instead of all. */
export interface OverlapIndex {
  /** Adds a preset, or replaces its earlier revision. */
  set(preset: CompiledPreset): void
  delete(id: string): void
  /** Ids of all presets that could disagree with this one on some VM, and of few others. Not its own. */
  candidates(preset: CompiledPreset): ReadonlySet<string>
  /** Whether nothing is stored, not even an empty part: deleted presets must leave nothing behind. */
  isEmpty(): boolean
}

/**
 * What a preset sets: places in a VM, with the meaning of the value there. Undefined: it can disagree with any other
 * value.
 */
type Claims = ReadonlyMap<string, string | undefined>

/** Values of a label or of the name of a namespace; a preset with this home selects only where one of them is. */
interface Home {
  readonly key: string
  readonly values: readonly string[]
}

type Bucket = Map<string, string | undefined>

interface Entry {
  readonly claims: Claims
  readonly homes: readonly Home[]
  /** The rarest of them when the preset was put in. */
  readonly home: Home
}

/** As deep as `spec.domain.memory.value` and `spec.domain.devices.disks`. */
const maxDepth = 4
/** The maximum number of values of a home. A preset is in the bucket of each of them. */
const maxValues = 16
const anywhere: Home = { key: '', values: [''] }

/**
 * An index by what presets set and by what they select: two presets can disagree only in a place that both set, with
 * values that differ, on a VM that both select. To look one up costs as much as there are presets of which all three
 * can be true, as far as one required label and the upper part of the structure tell.
 */
export function createOverlapIndex(structure: Structure): OverlapIndex {
  const entries = new Map<string, Entry>()
  /** By claim, then by the key and the value of the home. */
  const index = new Map<string, Map<string, Map<string, Bucket>>>()
  /** How many presets require a value. */
  const popularity = new Map<string, number>()

  const count = (homes: readonly Home[], by: 1 | -1): void => {
    for (const name of homes.flatMap(namesOf)) {
      const now = (popularity.get(name) ?? 0) + by
      if (now === 0) popularity.delete(name)
      else popularity.set(name, now)
    }
  }

  const rarestOf = (homes: readonly Home[]): Home => {
    const loadOf = (home: Home) => namesOf(home).reduce((sum, name) => sum + (popularity.get(name) ?? 0), 0)
    const [first = anywhere, ...others] = homes.filter(({ values }) => values.length <= maxValues)
    return others.reduce((best, home) => (loadOf(home) < loadOf(best) ? home : best), first)
  }

  const remove = (id: string): void => {
    const entry = entries.get(id)
    if (entry === undefined) return
    const { claims, home } = entry
    count(entry.homes, -1)
    for (const claim of claims.keys()) {
      const homes = index.get(claim)
      const values = homes?.get(home.key)
      for (const value of home.values) {
        const bucket = values?.get(value)
        bucket?.delete(id)
        if (bucket?.size === 0) values?.delete(value)
      }
      if (values?.size === 0) homes?.delete(home.key)
      if (homes?.size === 0) index.delete(claim)
    }
    entries.delete(id)
  }

  return {
    set(preset) {
      remove(preset.id)
      const homes = homesOf(preset)
      const entry = { claims: claimsOf(preset, structure), homes, home: rarestOf(homes) }
      entries.set(preset.id, entry)
      count(homes, 1)
      for (const [claim, meaning] of entry.claims) {
        const homes = at(index, claim, () => new Map<string, Map<string, Bucket>>())
        const values = at(homes, entry.home.key, () => new Map<string, Bucket>())
        for (const value of entry.home.values) at(values, value, (): Bucket => new Map()).set(preset.id, meaning)
      }
    },
    delete: remove,
    candidates(preset) {
      const found = new Set<string>()
      const own = new Map(homesOf(preset).map(({ key, values }) => [key, values]))
      for (const [claim, meaning] of claimsOf(preset, structure)) {
        for (const [key, values] of index.get(claim) ?? []) {
          const shared = own.get(key)?.flatMap((value) => values.get(value) ?? []) ?? values.values()
          for (const bucket of shared) {
            for (const [id, other] of bucket) if (other === undefined || other !== meaning) found.add(id)
          }
        }
      }
      found.delete(preset.id)
      return found
    },
    isEmpty: () => entries.size + index.size + popularity.size === 0,
  }
}

const namesOf = ({ key, values }: Home): readonly string[] => values.map((value) => `${key}=${value}`)

function at<K, V>(map: Map<K, V>, key: K, make: () => V): V {
  const known = map.get(key)
  if (known !== undefined) return known
  const made = make()
  map.set(key, made)
  return made
}

/** Only presets of one rank disagree about a value; about an exclusive group, those of any rank. */
function claimsOf({ mode, rank, exclusiveGroup, content }: CompiledPreset, structure: Structure): Claims {
  const claims = new Map<string, string | undefined>()
  if (mode !== 'Apply') return claims
  if (exclusiveGroup !== undefined) claims.set(`group ${exclusiveGroup}`, undefined)
  visit(structure, content, `${rank} `, 0, claims)
  return claims
}

function visit(
  structure: Structure,
  value: unknown,
  path: string,
  depth: number,
  claims: Map<string, string | undefined>,
): void {
  if (structure.kind === 'leaf') return void claims.set(path, structure.meaning(value))
  // Keys that users choose can be many, and branches exclude each other whatever is in them.
  const isWhole = structure.kind === 'list' || structure.union !== undefined || structure.keys().length === 0
  if (isWhole || depth === maxDepth) return void claims.set(path, undefined)
  if (!isRecord(value)) return
  for (const key of Object.keys(value)) {
    const list = structure.singles.get(key)
    const field = structure.field(key)
    if (list !== undefined) claims.set(`${path}/${list}`, undefined)
    else if (field !== undefined) visit(field, value[key], `${path}/${key}`, depth + 1, claims)
  }
}

/**
 * All labels of which a preset requires one of some values; a namespaced preset requires the label with its namespace's
 * name.
 */
function homesOf({ namespace, namespaceSelector, selector }: CompiledPreset): readonly Home[] {
  return [
    ...requiredBy(selector, 'vm'),
    ...(namespaceSelector === undefined ? [] : requiredBy(namespaceSelector, 'namespace')),
    ...(namespace === undefined ? [] : [{ key: 'namespace kubernetes.io/metadata.name', values: [namespace] }]),
  ]
}

const requiredBy = ({ requirements }: Selector, of: string): readonly Home[] =>
  requirements.flatMap(({ key, oneOf, presence }) =>
    presence === 'must' && oneOf !== undefined ? [{ key: `${of} ${key}`, values: [...oneOf] }] : [],
  )
