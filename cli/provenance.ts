import type { Origin } from '../api/cause.ts'
import { completedByAnnotation } from '../api/virtual-machine.ts'
import { originOf } from '../completion/origins.ts'
import type { Subject } from '../presets/kind.ts'
import type { Provenance } from '../presets/origins.ts'
import { joinPath } from '../api/path.ts'

/** The origin of a leaf, for people and scripts: `{user: true}`, `{preset, revision}` or `{default: rule}`. */
export interface Credit {
  readonly user?: true
  /** `NAMESPACE/NAME`, or `NAME` of a cluster preset. */
  readonly preset?: string
  readonly revision?: string
  readonly default?: string
}

export interface Entry extends Credit {
  readonly overridden?: readonly (Credit & { readonly value?: unknown })[]
  readonly removed?: true
  readonly skipped?: string
}

/**
 * The origin of each leaf of an object's labels, annotations, spec and other fields, and the overridden, removed and
 * skipped values.
 */
export function provenanceEntries(object: Subject, provenance: Provenance): { readonly [path: string]: Entry } {
  const { origins, overridden, removed, skipped } = provenance
  const entries = new Map<string, Entry>()
  for (const { path } of leavesOf(object)) {
    const lost = overridden.get(path)?.map(({ origin, value }) => ({
      ...creditOf(origin),
      ...(value === undefined ? {} : { value }),
    }))
    entries.set(path, { ...creditOf(originOf(origins, path)), ...(lost === undefined ? {} : { overridden: lost }) })
  }
  for (const [path, origin] of removed) entries.set(path, { ...entries.get(path), ...creditOf(origin), removed: true })
  for (const { path, origin, reason } of skipped) {
    if (!entries.has(path)) entries.set(path, { ...creditOf(origin), skipped: reason })
  }
  return Object.fromEntries(entries)
}

export function creditOf(origin: Origin): Credit {
  if (origin.by === 'user') return { user: true }
  if (origin.by === 'default') return { default: origin.rule }
  const { namespace, name, revision } = origin
  return { preset: namespace === undefined ? name : `${namespace}/${name}`, revision }
}

export function creditText(credit: Credit): string {
  if (credit.preset !== undefined) return `preset ${credit.preset}@${credit.revision}`
  return credit.default === undefined ? 'user' : `default ${credit.default}`
}

export interface Leaf {
  /** In kubectl's form. */
  readonly path: string
  readonly value: unknown
}

/** The parts with provenance: labels, annotations except completion's own, the spec and other fields. */
export const creditedTo = (object: Subject) => ({
  metadata: creditedMetadata(object),
  ...Object.fromEntries(Object.entries(object).filter(([key]) => !uncredited.has(key))),
})

function creditedMetadata({ metadata: { labels = {}, annotations = {} } }: Subject) {
  const { [completedByAnnotation]: _, ...others } = annotations
  return { labels: unlessEmpty(labels), annotations: unlessEmpty(others) }
}

const unlessEmpty = <T extends object>(map: T): T | undefined => (Object.keys(map).length === 0 ? undefined : map)

/** The leaves of the parts with provenance: scalars, and empty objects and lists. */
export function* leavesOf(object: Subject): Generator<Leaf> {
  const { labels, annotations } = creditedMetadata(object)
  yield* leavesBelow(labels, 'metadata.labels')
  yield* leavesBelow(annotations, 'metadata.annotations')
  for (const [key, value] of Object.entries(object)) {
    if (!uncredited.has(key)) yield* leavesBelow(value, key)
  }
}

/** The fields of an object that no preset sets, and the metadata. */
const uncredited: ReadonlySet<string> = new Set(['apiVersion', 'kind', 'metadata', 'status'])

export function* leavesBelow(value: unknown, path: string): Generator<Leaf> {
  const members = typeof value === 'object' && value !== null ? Object.entries(value) : []
  if (members.length === 0 && value !== undefined) yield { path, value }
  for (const [key, member] of members) {
    yield* leavesBelow(member, joinPath(path, Array.isArray(value) ? Number(key) : key))
  }
}
