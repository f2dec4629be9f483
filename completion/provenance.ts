import type { Origin } from '../api/cause.ts'
import type { Domain } from '../api/domain/domain.ts'
import { isRecord } from '../api/schema.ts'
import type { Subject } from '../presets/kind.ts'
import type { LostValue, Origins, Provenance, Shortened, Skipped } from '../presets/origins.ts'
import { put } from '../presets/tree.ts'
import { joinPath, pathKeys } from '../api/path.ts'
import { isHolder, type Added } from './defaults/apply.ts'
import { allOrigins } from './origins.ts'

export type { Origins, Provenance } from '../presets/origins.ts'

/**
 * The limit for the annotation, in bytes of UTF-8. The API server allows 256 KiB for all annotations of an object; this
 * leaves room for others.
 */
export const maxProvenanceBytes = 32 * 1024

/**
 * A completed VM's provenance as stored in its annotation:
 *
 *     {v: 1, by: [["team","small","0f1e…"], ["","site","…"], "=disk-bus"],
 *      at: {spec: {domain: {cpu: 0, devices: {disks: {1: 2}}}}}, …}
 *
 * `by` lists the origins: a preset's namespace ('' for a cluster preset), name and revision, `=` and a default's rule,
 * or `user`. `at` is a tree of paths whose leaves are indexes into `by`; if all leaves of a subtree have one origin,
 * the tree ends there. Anything that it does not contain is the user's. `over` and `gone` are such trees for overridden
 * and removed values, `lock` for labels, annotations and media that presets enforce, and `skip` is a list of [by, path,
 * reason]. `over` also holds the user's value if it is short: `[3, 0]` without, `[[3, "sata"], 0]` with it. `less` is a
 * list of the lists that lost items of the user: `["spec.volumes", 3, [1, "0f1e…"]]` if the second of three. It is not a
 * tree, because an item of such a list can contain another. `full` is a list of the paths of empty objects and lists of
 * the user that are filled now.
 */
interface Encoded {
  readonly v: 1
  readonly by: readonly (readonly string[] | string)[]
  readonly at?: Tree
  readonly over?: Tree
  readonly gone?: Tree
  readonly lock?: Tree
  readonly less?: readonly (readonly [string, number, ...(readonly [number, string])[]])[]
  readonly full?: readonly string[]
  readonly skip?: readonly (readonly [number, string, string])[]
  /** The number of entries omitted because of the size limit. */
  readonly more?: number
}

type Tree = number | readonly (number | readonly [number, unknown])[] | { readonly [key: string]: Tree }

const userMark = 'user'

/** Provenance during completion: additions of default rules are recorded by object, not yet by path. */
export interface Attribution extends Provenance {
  readonly added?: Added
  /** The domain that the rules added to; required with `added`. */
  readonly domain?: Domain
  /** Labels, annotations and media that presets enforce. Never omitted from the annotation. */
  readonly enforced?: Origins
  /** Lists that lost items of the user. */
  readonly shortened?: ReadonlyMap<string, Shortened>
  /** Empty objects and lists of the user that presets or defaults filled. */
  readonly filled?: ReadonlySet<string>
}

export interface EncodedProvenance {
  readonly text: string
  /** The number of entries that did not fit; 0 except for extremely large VMs. */
  readonly left: number
}

/** The longest overridden value that is recorded, in characters of JSON. */
const maxLostValue = 128

/**
 * Encodes the annotation. If it is too long, omits the user's overridden values first, then skipped values, then the
 * items that lists lost, then overridden and removed values, then origins from the last path on. The text records how
 * many entries are missing.
 * @param object as completed, a VM or another kind: its leaves decide whether a whole subtree has one origin
 */
export function encodeProvenance(
  provenance: Attribution,
  object: Subject,
  maxBytes = maxProvenanceBytes,
): EncodedProvenance {
  const { shortened = noPaths, filled = noPaths } = provenance
  const extras = provenance.overridden.size + provenance.removed.size + shortened.size + filled.size
  const empty = { overridden: noPaths, removed: noPaths, shortened: noPaths, filled: new Set<string>(), skipped: [] }
  const withoutLong = { ...provenance, overridden: withoutValues(provenance.overridden) }
  const shorter = [
    { stored: withoutLong, left: 0 },
    { stored: { ...withoutLong, skipped: [] }, left: provenance.skipped.length },
    {
      stored: { ...withoutLong, skipped: [], shortened: empty.shortened },
      left: provenance.skipped.length + shortened.size,
    },
    { stored: { ...provenance, ...empty }, left: provenance.skipped.length + extras },
  ]
  const isAllOrigins = extras + provenance.skipped.length === 0
  const choices = [{ stored: provenance, left: 0 }, ...(isAllOrigins ? [] : shorter)]
  for (const { stored, left } of choices) {
    const text = textOf(stored, object, left)
    if (sizeOf(text) <= maxBytes) return { text, left }
  }
  const { added = nothing, domain = {}, origins } = provenance
  const whole = { ...provenance, added: nothing, origins: allOrigins(origins, added, domain), ...empty }
  return cutOrigins(whole, object, provenance.skipped.length + extras, maxBytes)
}

/** In bytes. A text whose paths are so long that they would not be decoded counts as one that is too long itself. */
function sizeOf(text: string): number {
  const bytes = Buffer.byteLength(text)
  if (bytes <= alwaysDecoded) return bytes
  const { keys, characters } = expansionOf(JSON.parse(text))
  return Math.ceil(
    Math.max(bytes, (keys / mostKeys) * maxProvenanceBytes, (characters / mostCharacters) * maxProvenanceBytes),
  )
}

const noPaths = new Map<string, never>()

const withoutValues = (overridden: Provenance['overridden']): Provenance['overridden'] =>
  new Map([...overridden].map(([path, lost]) => [path, lost.map(({ origin }) => ({ origin, value: undefined }))]))

/** What presets and defaults can set, metadata and spec first. */
function settable(object: Subject): { readonly [key: string]: unknown } {
  const { metadata, spec, apiVersion: _, kind: _kind, status: _status, ...others }: Settable = { ...object }
  return { metadata, spec, ...others }
}

type Settable = { readonly [key: string]: unknown }

/** Sorts origins by the order of the leaves in the object, so that the same object is always cut at the same leaf. */
function inOrder(origins: Origins, object: Subject): (readonly [string, Origin])[] {
  const ordered = new Map<string, Origin>()
  const visit = (value: unknown, path: string): void => {
    const origin = origins.get(path)
    if (origin !== undefined) ordered.set(path, origin)
    else if (Array.isArray(value)) for (const [index, item] of value.entries()) visit(item, joinPath(path, index))
    else if (isRecord(value)) for (const [key, member] of Object.entries(value)) visit(member, joinPath(path, key))
  }
  visit(settable(object), '')
  return [...ordered, ...[...origins].filter(([path]) => !ordered.has(path))]
}

/** The share of the limit that must be used; using the rest would take as many attempts again. */
const fullEnough = 0.95

/**
 * Includes about as many origins as fit. The length grows roughly linearly with their number, so each attempt
 * interpolates, and every other one bisects in case the growth is not linear.
 */
function cutOrigins(provenance: Attribution, object: Subject, leftBefore: number, maxBytes: number): EncodedProvenance {
  const origins = inOrder(provenance.origins, object)
  const cut = (count: number): EncodedProvenance => {
    const left = leftBefore + origins.length - count
    return { text: textOf({ ...provenance, origins: new Map(origins.slice(0, count)) }, object, left), left }
  }
  const attempt = (count: number) => {
    const encoded = cut(count)
    return { count, encoded, bytes: sizeOf(encoded.text) }
  }
  let [fits, tooMany] = [attempt(0), attempt(origins.length)]
  for (let isHalfway = false; fits.bytes < maxBytes * fullEnough; isHalfway = !isHalfway) {
    const between = tooMany.count - fits.count
    if (between <= 1) break
    const share = isHalfway ? 0.5 : (maxBytes * ((1 + fullEnough) / 2) - fits.bytes) / (tooMany.bytes - fits.bytes)
    const next = attempt(fits.count + Math.min(between - 1, Math.max(1, Math.floor(between * share))))
    if (next.bytes <= maxBytes) fits = next
    else tooMany = next
  }
  return fits.encoded
}

function textOf(provenance: Attribution, object: Subject, left: number): string {
  const by: (readonly string[] | string)[] = []
  const places = new Map<string, number>()
  // Most leaves share the same origin object.
  const known = new Map<Origin | string, number>()
  const placeOf: PlaceOf = (origin) => {
    const found = known.get(origin)
    if (found !== undefined) return found
    const encoded = encodeOrigin(typeof origin === 'string' ? { by: 'default', rule: origin } : origin)
    const key = typeof encoded === 'string' ? encoded : JSON.stringify(encoded)
    const place = places.get(key) ?? by.push(encoded) - 1
    places.set(key, place)
    known.set(origin, place)
    return place
  }
  const { added = nothing, origins } = provenance
  const at = treeOf(settable(object), statedOf(origins), added, placeOf)
  const over = trieOf(provenance.overridden, (lost) =>
    lost.map(({ origin, value }) => (isKept(origin, value) ? [placeOf(origin), value] : placeOf(origin))),
  )
  const gone = trieOf(provenance.removed, placeOf)
  const lock = trieOf(provenance.enforced ?? new Map<string, Origin>(), placeOf)
  const less = [...(provenance.shortened ?? [])].map(
    ([path, { length, missing }]) => [path, length, ...missing] as const,
  )
  const full = [...(provenance.filled ?? [])]
  const skip = provenance.skipped.map(({ origin, path, reason }) => [placeOf(origin), path, reason] as const)
  return JSON.stringify({
    v: 1,
    by,
    ...(at === undefined ? {} : { at }),
    ...(over === undefined ? {} : { over }),
    ...(gone === undefined ? {} : { gone }),
    ...(lock === undefined ? {} : { lock }),
    ...(less.length === 0 ? {} : { less }),
    ...(full.length === 0 ? {} : { full }),
    ...(skip.length === 0 ? {} : { skip }),
    ...(left === 0 ? {} : { more: left }),
  } satisfies Encoded)
}

/** Values of presets need not be stored: they can be read in the presets. */
const isKept = (origin: Origin, value: unknown): boolean =>
  origin.by === 'user' && value !== undefined && JSON.stringify(value).length <= maxLostValue

function encodeOrigin(origin: Origin): readonly string[] | string {
  if (origin.by === 'preset') return [origin.namespace ?? '', origin.name, origin.revision]
  return origin.by === 'default' ? `=${origin.rule}` : userMark
}

/** Kubernetes' limit for names. Rules and revisions are shorter. */
const longestName = 253

function decodeOrigin(encoded: unknown): Origin | undefined {
  if (encoded === userMark) return { by: 'user' }
  if (typeof encoded === 'string') {
    return encoded.length > longestName ? undefined : { by: 'default', rule: encoded.slice(1) }
  }
  if (!Array.isArray(encoded)) return undefined
  const [namespace, name, revision]: readonly unknown[] = encoded
  if (typeof namespace !== 'string' || typeof name !== 'string' || typeof revision !== 'string') return undefined
  if (namespace.length + name.length + revision.length > 3 * longestName) return undefined
  return { by: 'preset', ...(namespace === '' ? {} : { namespace }), name, revision }
}

/** A map's key that looks like an index is prefixed with a dot. */
const treeKey = (key: string | number): string =>
  typeof key === 'string' && /^\.*\d+$/.test(key) ? `.${key}` : String(key)

const pathKey = (key: string): string | number => {
  if (/^\d+$/.test(key)) return Number(key)
  return /^\.+\d+$/.test(key) ? key.slice(1) : key
}

const nothing: Added = new Map()

/** A tree of origins by the keys of their paths. */
interface Stated {
  origin?: Origin
  readonly below: Map<string, Stated>
}

function statedOf(origins: Origins): Stated {
  const root: Stated = { below: new Map() }
  for (const [path, origin] of origins) {
    if (origin.by === 'user') continue
    let at = root
    for (const key of pathKeys(path)) {
      const next = at.below.get(String(key)) ?? { below: new Map() }
      at.below.set(String(key), next)
      at = next
    }
    at.origin = origin
  }
  return root
}

/** Returns the index in `by` of an origin, or of a default's rule. Indexes are assigned in the order of the calls. */
type PlaceOf = (origin: Origin | string) => number

/**
 * The tree of everything that is not the user's; undefined if everything is. A subtree with one origin is one number.
 * Visits each leaf once.
 */
function treeOf(value: unknown, stated: Stated | undefined, added: Added, placeOf: PlaceOf): Tree | undefined {
  if (stated?.origin !== undefined) return placeOf(stated.origin)
  if (typeof value !== 'object' || value === null) return undefined
  const leaves = added.get(value)
  const keys = Object.keys(value)
  const members: (Tree | undefined)[] = []
  for (const key of keys) {
    const member: unknown = Reflect.get(value, key)
    const rule = leaves?.get(key)
    const isLeaf = rule !== undefined && !isHolder(member)
    members.push(isLeaf ? placeOf(rule) : treeOf(member, stated?.below.get(key), added, placeOf))
  }
  const [first] = members
  if (typeof first !== 'object' && members.every((member) => member === first)) return first
  const tree: { [key: string]: Tree } = {}
  const keyOf = Array.isArray(value) ? String : treeKey
  for (const [index, key] of keys.entries()) {
    const member = members[index]
    if (member !== undefined) put(tree, keyOf(key), member)
  }
  return tree
}

/** Converts paths to a tree. A key that contains `]` is cut there: these paths are only displayed. */
function trieOf<T>(paths: ReadonlyMap<string, T>, encode: (value: T) => Tree): Tree | undefined {
  const root = new Map<string, unknown>()
  for (const [path, value] of paths) {
    const keys = pathKeys(path).map(treeKey)
    const last = keys.pop() ?? ''
    let at = root
    for (const key of keys) {
      const next = at.get(key)
      const below = next instanceof Map ? next : new Map<string, unknown>()
      at.set(key, below)
      at = below
    }
    at.set(last, encode(value))
  }
  return root.size === 0 ? undefined : mapTree(root)
}

const mapTree = (map: ReadonlyMap<string, unknown>): Tree =>
  Object.fromEntries([...map].map(([key, value]) => [key, value instanceof Map ? mapTree(value) : (value as Tree)]))

/** The provenance of a stored VM. */
export interface DecodedProvenance extends Provenance {
  /** The number of entries that were omitted. */
  readonly left: number
  /** Labels, annotations and media that presets enforce. */
  readonly enforced: Origins
  /** Lists that lost items of the user. */
  readonly shortened: ReadonlyMap<string, Shortened>
  /** Empty objects and lists of the user that presets or defaults filled. */
  readonly filled: ReadonlySet<string>
}

/**
 * Decodes an annotation. Paths of `origins` may end above the leaves that they apply to; look them up with `originOf`.
 * One whose paths are much longer than the annotation has only what presets enforce: each path is read many times, and
 * `encodeProvenance` writes none.
 * @returns undefined if it is not a provenance; users may write anything
 */
export function decodeProvenance(text: string): DecodedProvenance | undefined {
  if (text.length > maxProvenanceBytes) return undefined
  const encoded = parseJson(text)
  if (!isRecord(encoded) || encoded['v'] !== 1 || !Array.isArray(encoded['by'])) return undefined
  const by = encoded['by'].map(decodeOrigin)
  const one = (place: unknown): Origin | undefined => (typeof place === 'number' ? by[place] : undefined)
  const many = (places: unknown): readonly LostValue[] | undefined =>
    Array.isArray(places)
      ? places.flatMap((entry: unknown) => {
          const [place, value]: readonly unknown[] = Array.isArray(entry) ? entry : [entry]
          const origin = one(place)
          return origin === undefined ? [] : [{ origin, value }]
        })
      : undefined
  const { at, over, gone, lock, less, full } = encoded
  const isShown = isShort(expansionOf({ at, over, gone }))
  const shown = <T>(tree: unknown, decode: (end: unknown) => T | undefined) => pathsOf(isShown ? tree : {}, decode)
  return {
    origins: shown(at, one),
    overridden: shown(over, many),
    removed: shown(gone, one),
    enforced: pathsOf(isShort(expansionOf({ lock })) ? lock : {}, one),
    shortened: isShown ? shortenedOf(less) : new Map(),
    filled: new Set(Array.isArray(full) ? full.filter((path) => typeof path === 'string') : []),
    skipped: skipsOf(encoded['skip'], one),
    left: typeof encoded['more'] === 'number' ? encoded['more'] : 0,
  }
}

/** Each item of a list that an update sends has this text in its path. No list of a VM has a path of half this length. */
const longestListPath = 256

function shortenedOf(lists: unknown): ReadonlyMap<string, Shortened> {
  if (!Array.isArray(lists)) return new Map()
  return new Map(
    lists.flatMap((entry): readonly (readonly [string, Shortened])[] => {
      if (!Array.isArray(entry)) return []
      const [path, length, ...items]: readonly unknown[] = entry
      if (typeof path !== 'string' || path.length > longestListPath || !isCount(length)) return []
      return [[path, { length, missing: missingOf(items) }]]
    }),
  )
}

function missingOf(items: readonly unknown[]): ReadonlyMap<number, string> {
  return new Map(
    items.flatMap((item) => {
      const [index, digest]: readonly unknown[] = Array.isArray(item) ? item : []
      return isCount(index) && typeof digest === 'string' && digestForm.test(digest) ? [[index, digest] as const] : []
    }),
  )
}

const isCount = (value: unknown): value is number => Number.isSafeInteger(value) && Number(value) >= 0

const digestForm = /^[0-9a-f]{16}$/

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

/** A domain may be nested 128 levels deep. */
const maxDepth = 140

/** Of all paths together: a tree of 32 KiB with 6,000 leaves and eight levels has half as many. */
const mostKeys = 128 * 1024
const mostCharacters = 1024 * 1024

/** A shorter text has no longer paths. In bytes. */
const alwaysDecoded = 2048

/** What the paths of a provenance have together, those that end above leaves included. */
interface Expansion {
  keys: number
  characters: number
}

const isShort = ({ keys, characters }: Expansion): boolean => keys <= mostKeys && characters <= mostCharacters

/** Costs no more than the text has characters. */
function expansionOf({
  at,
  over,
  gone,
  lock,
}: { readonly [part in 'at' | 'over' | 'gone' | 'lock']?: unknown }): Expansion {
  const sum = { keys: 0, characters: 0 }
  const visit = (tree: unknown, depth: number, length: number): void => {
    if (depth > maxDepth) return
    sum.keys += depth
    sum.characters += length
    if (!isRecord(tree)) return
    // The dot or the brackets of a key count as two.
    for (const [key, member] of Object.entries(tree)) visit(member, depth + keysIn(key), length + key.length + 2)
  }
  for (const tree of [at, over, gone, lock]) visit(tree, 0, 0)
  return sum
}

function pathsOf<T>(tree: unknown, decode: (end: unknown) => T | undefined): ReadonlyMap<string, T> {
  const paths = new Map<string, T>()
  const visit = (at: unknown, path: string, depth: number): void => {
    if (depth > maxDepth) return
    const end = decode(at)
    if (end !== undefined) paths.set(path, end)
    else if (isRecord(at)) {
      for (const [key, member] of Object.entries(at)) visit(member, joinPath(path, pathKey(key)), depth + keysIn(key))
    }
  }
  visit(tree, '', 0)
  return paths
}

/** A key with brackets is more than one in the text of a path. */
const keysIn = (key: string): number => (/[[\]]/.test(key) ? key.split(/[.[\]]/).length : 1)

const reasons = ['no-such-item', 'other-branch', 'volume-lost', 'volume-missing'] as const

function skipsOf(list: unknown, one: (place: unknown) => Origin | undefined): readonly Skipped[] {
  if (!Array.isArray(list)) return []
  return list.flatMap((entry): readonly Skipped[] => {
    if (!Array.isArray(entry)) return []
    const [place, path, recorded]: readonly unknown[] = entry
    const origin = one(place)
    const reason = reasons.find((known) => known === recorded)
    return origin === undefined || typeof path !== 'string' || reason === undefined ? [] : [{ origin, path, reason }]
  })
}
