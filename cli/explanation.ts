import { isDeepStrictEqual } from 'node:util'
import type { Origin } from '../api/cause.ts'
import { group } from '../api/object.ts'
import { isAtOrBelow } from '../api/path.ts'
import { originOf } from '../completion/origins.ts'
import type { Provenance } from '../completion/provenance.ts'
import type { Subject } from '../presets/kind.ts'
import { layerOf, priorityOf } from '../presets/source.ts'
import type { CompleteSettings } from './complete.ts'
import type { Considered } from './considered.ts'
import { creditOf, leavesOf, type Credit } from './provenance.ts'
import type { Cluster } from './world.ts'

export interface ExplainSettings extends CompleteSettings {
  readonly cluster?: Cluster
}

/** A refused object has no fields, but has presets in scope. */
export interface RefusedObject {
  readonly refusal: string
  readonly presets: readonly Considered[]
}

/** The output for one VM, or one object of another kind (`Pod team/web`). */
export type Explanation = ({ readonly vm: string } | { readonly object: string }) & Explained

interface Explained {
  readonly presets: readonly Considered[]
  readonly fields: readonly Field[]
  readonly removed: readonly (Credit & { readonly path: string })[]
  readonly skipped: readonly (Credit & { readonly path: string; readonly reason: string })[]
  readonly warnings: readonly string[]
  /** Entries of a large provenance that did not fit in its annotation. */
  readonly left?: number
}

export interface Field extends Credit {
  readonly path: string
  readonly value: unknown
  readonly overridden?: readonly (Credit & { readonly value?: unknown; readonly why: string })[]
}

export function explanationOf(
  object: Subject & { readonly apiVersion?: string; readonly kind?: string },
  provenance: Provenance,
  presets: readonly Considered[],
  rankOf: (origin: Origin) => number | undefined,
  warnings: readonly string[],
): Explanation {
  const { origins, overridden, removed, skipped } = provenance
  const fields = [...leavesOf(object)].map(({ path, value }): Field => {
    const origin = originOf(origins, path)
    const lost = overridden.get(path)?.map((one) => ({
      ...creditOf(one.origin),
      ...(one.value === undefined ? {} : { value: one.value }),
      why: whyLost(origin, one.origin, one.value !== undefined && isDeepStrictEqual(one.value, value), rankOf),
    }))
    return { path, value, ...creditOf(origin), ...(lost === undefined ? {} : { overridden: lost }) }
  })
  const { namespace = '', name, generateName = '' } = object.metadata
  const id = `${namespace === '' ? '' : `${namespace}/`}${name ?? `${generateName}*`}`
  return {
    ...(object.apiVersion?.startsWith(`${group}/`) === true ? { vm: id } : { object: `${object.kind} ${id}` }),
    presets: presets.map(({ preset, layer, priority, outcome, why }) => ({
      preset,
      layer,
      priority,
      outcome,
      ...(why === undefined ? {} : { why }),
    })),
    fields,
    removed: [...removed].map(([path, origin]) => ({ path, ...creditOf(origin) })),
    skipped: skipped.map(({ path, origin, reason }) => ({ path, ...creditOf(origin), reason })),
    warnings,
  }
}

/**
 * Why one origin overrode another: by the kinds of the two origins, their layers, or their priorities within one layer.
 */
function whyLost(
  winner: Origin,
  loser: Origin,
  isEqual: boolean,
  rankOf: (origin: Origin) => number | undefined,
): string {
  if (isEqual) return 'has the same value'
  if (winner.by === 'user') return 'the user wins over defaults'
  if (loser.by === 'user') return 'enforced presets win over the user'
  const [won, lost] = [rankOf(winner), rankOf(loser)]
  if (won === undefined || lost === undefined) return 'had less priority'
  if (layerOf(won) !== layerOf(lost)) return `${layerOf(won)} wins over ${layerOf(lost)}`
  return `priority ${priorityOf(won)} wins over ${priorityOf(lost)}`
}

export function below<T extends Explained>(explanation: T, path: string): T {
  const isBelow = (one: { readonly path: string }): boolean => isAtOrBelow(one.path, path)
  const { fields, removed, skipped } = explanation
  return {
    ...explanation,
    fields: fields.filter(isBelow),
    removed: removed.filter(isBelow),
    skipped: skipped.filter(isBelow),
  }
}
