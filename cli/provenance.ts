import type { Origin } from '../api/cause.ts'
import type { Provenance } from '../presets/origins.ts'

/** Who put a leaf there, for people and scripts: `{user: true}`, `{preset, revision}` or `{default: rule}`. */
export interface Credit {
  readonly user?: true
  /** `NAMESPACE/NAME`, or `NAME` of a cluster preset. */
  readonly preset?: string
  readonly revision?: string
  readonly default?: string
}

export interface Entry extends Credit {
  readonly overridden?: readonly (Credit & { readonly value: unknown })[]
  readonly removed?: true
  readonly skipped?: string
}

/** For each leaf of `value` below `at`, who put it there; and what was overridden, removed or skipped. */
export function provenanceEntries(
  value: unknown,
  at: string,
  { origins, overridden, removed, skipped }: Provenance,
): { readonly [path: string]: Entry } {
  const entries = new Map<string, Entry>()
  for (const path of leafPathsOf(value, at)) {
    const lost = overridden
      .get(path)
      ?.map(({ origin, value: lostValue }) => ({ ...creditOf(origin), value: lostValue }))
    entries.set(path, {
      ...creditOf(origins.get(path) ?? { by: 'user' }),
      ...(lost === undefined ? {} : { overridden: lost }),
    })
  }
  for (const [path, origin] of removed) entries.set(path, { ...creditOf(origin), removed: true })
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

/** Every scalar and every empty object or list, as kubectl prints paths. */
function* leafPathsOf(value: unknown, at: string): Generator<string> {
  const members: readonly (readonly [string, unknown])[] = Array.isArray(value)
    ? value.map((item, index) => [`${at}[${index}]`, item])
    : typeof value === 'object' && value !== null
      ? Object.entries(value).map(([key, item]) => [/^\w+$/.test(key) ? `${at}.${key}` : `${at}[${key}]`, item])
      : []
  if (members.length === 0) yield at
  for (const [path, item] of members) yield* leafPathsOf(item, path)
}
