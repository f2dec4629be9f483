import type { Origin } from '../api/cause.ts'

/** The value of one preset, or of the user, for one place in the VM. */
export interface Source {
  /** Higher wins; equal and different is a conflict. */
  readonly rank: number
  readonly origin: Origin
  readonly value: unknown
}

/** Lowest first. The user is in the middle: later layers win over the user. */
const layers = ['cluster Default', 'namespace Default', 'user', 'namespace Enforce', 'cluster Enforce'] as const
export type Layer = (typeof layers)[number]

/** Priorities are int32. */
const priorities = 2 ** 32

/** One number for layer and priority, so that sources compare by it alone. */
export const rankOf = (layer: Layer, priority: number): number =>
  layers.indexOf(layer) * priorities + priority + 2 ** 31

export const layerOf = (rank: number): Layer => layers[Math.floor(rank / priorities)] ?? 'user'

export const priorityOf = (rank: number): number => (rank % priorities) - 2 ** 31

export const userRank = rankOf('user', 0)

export const byUser: Origin = Object.freeze({ by: 'user' })

export const isUser = (source: Source): boolean => source.origin.by === 'user'

/**
 * How a preset is called in messages and in the exclude annotation's place: `NAMESPACE/NAME`, a cluster preset `NAME`.
 */
export const originLabel = (origin: Origin): string => {
  if (origin.by === 'user') return 'user'
  if (origin.by === 'default') return `default ${origin.rule}`
  return origin.namespace === undefined ? origin.name : `${origin.namespace}/${origin.name}`
}

/** Strongest first; among equals by label, which decides only the order in messages. */
export const compareSources = (left: Source, right: Source): number =>
  right.rank - left.rank || compareText(originLabel(left.origin), originLabel(right.origin))

export const compareText = (left: string, right: string): number => (left < right ? -1 : left > right ? 1 : 0)
