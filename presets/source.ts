import type { Origin } from '../api/cause.ts'

/** The value that one preset, or the user, states for one place in the VM. */
export interface Source {
  /** The higher rank wins. Different values of equal rank are a conflict. */
  readonly rank: number
  readonly origin: Origin
  readonly value: unknown
}

/** Lowest first. Layers after the user's win over the user. */
const layers = ['cluster Default', 'namespace Default', 'user', 'namespace Enforce', 'cluster Enforce'] as const
export type Layer = (typeof layers)[number]

/** The number of priorities, which are int32. */
const priorities = 2 ** 32

/** Combines layer and priority into one number, so that it alone orders sources. */
export const rankOf = (layer: Layer, priority: number): number =>
  layers.indexOf(layer) * priorities + priority + 2 ** 31

export const layerOf = (rank: number): Layer => layers[Math.floor(rank / priorities)] ?? 'user'

export const priorityOf = (rank: number): number => (rank % priorities) - 2 ** 31

export const userRank = rankOf('user', 0)

export const byUser: Origin = Object.freeze({ by: 'user' })

/** Below every preset: what the API server or another webhook filled in. */
export const lowestRank = -1

export const filledIn: Origin = Object.freeze({ by: 'default', rule: 'api-server' })

export const isUser = (source: Source): boolean => source.origin.by === 'user'

export const isFilledIn = (source: Source): boolean => source.origin === filledIn

/** `NAMESPACE/NAME`, or `NAME` for a cluster preset: in messages and in the annotation that excludes presets. */
export const originLabel = (origin: Origin): string => {
  if (origin.by === 'user') return 'user'
  if (origin.by === 'default') return `default ${origin.rule}`
  return origin.namespace === undefined ? origin.name : `${origin.namespace}/${origin.name}`
}

/** Strongest first. Equals are ordered by label, which affects only the order in messages. */
export const compareSources = (left: Source, right: Source): number =>
  right.rank - left.rank || compareText(originLabel(left.origin), originLabel(right.origin))

export const compareText = (left: string, right: string): number => (left < right ? -1 : left > right ? 1 : 0)
