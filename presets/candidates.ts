import type { CompiledPreset } from './compile.ts'
import type { Labels, Selector } from './selector.ts'
import { isSelected } from './selector.ts'

/** No preset applies in these namespaces. */
const defaultProtectedNamespaces: readonly string[] = ['kube-system', 'virtset-system']

export interface Namespace {
  readonly name: string
  readonly labels: Labels
}

/** What the index reads of a preset. Groups have selectors, too. */
export type Selecting = Pick<CompiledPreset, 'id' | 'namespace' | 'selector' | 'namespaceSelector'>

/** An index of presets by required labels: finding the presets for a VM does not test every preset. */
export interface Candidates<Preset extends Selecting = CompiledPreset> {
  /** Adds a preset, or replaces an earlier revision of it. */
  readonly set: (preset: Preset) => void
  readonly delete: (id: string) => void
  readonly get: (id: string) => Preset | undefined
  readonly size: () => number
  /** In no particular order. */
  readonly all: () => Iterable<Preset>
  /** All presets whose selectors match, in no particular order. Empty for a protected namespace. */
  readonly select: (labels: Labels, namespace: Namespace) => readonly Preset[]
  /** Every preset that could select a VM in this namespace, whatever its labels. Empty for a protected namespace. */
  readonly inScope: (namespace: Namespace) => readonly Preset[]
}

/** Presets by bucket key, then by ID. A bucket key stands for one label requirement; see `rarestKeys`. */
type Buckets<Preset extends Selecting> = Map<string, Map<string, Preset>>

const anything = ''

/**
 * Creates an index of presets. Each preset is stored under its rarest requirement: in one bucket, or in one per value
 * if the requirement allows several values. The cost of `select` grows with the labels of the VM and the presets in the
 * matching buckets, not with the number of all presets.
 */
export function createCandidates<Preset extends Selecting = CompiledPreset>(
  presets: Iterable<Preset> = [],
  protectedNamespaces: readonly string[] = defaultProtectedNamespaces,
): Candidates<Preset> {
  const all = new Map<string, Preset>()
  const homes = new Map<string, readonly string[]>()
  const buckets: Buckets<Preset> = new Map()
  const remove = (id: string): void => {
    for (const key of homes.get(id) ?? []) {
      const bucket = buckets.get(key)
      bucket?.delete(id)
      if (bucket?.size === 0) buckets.delete(key)
    }
    homes.delete(id)
    all.delete(id)
  }
  const set = (preset: Preset): void => {
    remove(preset.id)
    const keys = rarestKeys(preset, buckets)
    all.set(preset.id, preset)
    homes.set(preset.id, keys)
    for (const key of keys) {
      const bucket = buckets.get(key) ?? new Map<string, Preset>()
      bucket.set(preset.id, preset)
      buckets.set(key, bucket)
    }
  }
  for (const preset of presets) set(preset)
  return {
    set,
    delete: remove,
    get: (id) => all.get(id),
    size: () => all.size,
    all: () => all.values(),
    select: (labels, namespace) => {
      if (protectedNamespaces.includes(namespace.name)) return []
      const found = new Map<string, Preset>()
      for (const key of probes(labels, namespace)) {
        for (const [id, preset] of buckets.get(key) ?? []) {
          if (selects(preset, labels, namespace)) found.set(id, preset)
        }
      }
      return [...found.values()]
    },
    inScope: (namespace) =>
      protectedNamespaces.includes(namespace.name)
        ? []
        : [...all.values()].filter((preset) => isInScope(preset, namespace)),
  }
}

/** Whether a preset applies to this namespace at all. */
export const isInScope = (
  { namespace: own, namespaceSelector }: Pick<CompiledPreset, 'namespace' | 'namespaceSelector'>,
  { name, labels }: Namespace,
): boolean =>
  (own === undefined || own === name) && (namespaceSelector === undefined || isSelected(namespaceSelector, labels))

export const selects = (
  preset: Pick<CompiledPreset, 'namespace' | 'namespaceSelector' | 'selector'>,
  labels: Labels,
  namespace: Namespace,
): boolean => isInScope(preset, namespace) && isSelected(preset.selector, labels)

/**
 * Returns the bucket keys of the requirement whose buckets contain the fewest presets. A key starts with its scope:
 * `n/NAME ` for one namespace, `c ` for all namespaces, `s ` for labels of the namespace itself.
 */
function rarestKeys<Preset extends Selecting>(preset: Preset, buckets: Buckets<Preset>): readonly string[] {
  const scope = preset.namespace === undefined ? 'c ' : `n/${preset.namespace} `
  const choices = [
    ...choicesOf(preset.selector, scope),
    ...(preset.namespaceSelector === undefined ? [] : choicesOf(preset.namespaceSelector, 's ')),
  ]
  const load = (keys: readonly string[]) => keys.reduce((sum, key) => sum + (buckets.get(key)?.size ?? 0), keys.length)
  let best: readonly string[] = [`${scope}${anything}`]
  let bestLoad = Number.POSITIVE_INFINITY
  for (const keys of choices) {
    const ofThis = load(keys)
    if (ofThis >= bestLoad) continue
    best = keys
    bestLoad = ofThis
  }
  return best
}

/** Buckets take memory, so a requirement that allows more values than this is stored under its label key alone. */
const maxBuckets = 16

const choicesOf = ({ requirements }: Selector, scope: string): readonly (readonly string[])[] =>
  requirements
    .filter(({ presence }) => presence === 'must')
    .map(({ key, oneOf }) =>
      oneOf === undefined || oneOf.size > maxBuckets
        ? [`${scope}${key}`]
        : [...oneOf].map((value) => `${scope}${key}=${value}`),
    )

function* probes(labels: Labels, namespace: Namespace): Generator<string> {
  const scopes = [`n/${namespace.name} `, 'c ']
  for (const scope of scopes) {
    yield `${scope}${anything}`
    for (const key of Object.keys(labels)) {
      yield `${scope}${key}`
      yield `${scope}${key}=${labels[key]}`
    }
  }
  for (const key of Object.keys(namespace.labels)) {
    yield `s ${key}`
    yield `s ${key}=${namespace.labels[key]}`
  }
}
