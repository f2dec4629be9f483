import { pathKeys } from '../api/path.ts'
import { virtualMachineStructure } from './structure.ts'

/** A parsed path to remove. */
export interface RemovePath {
  readonly text: string
  readonly steps: readonly RemoveStep[]
}

export type RemoveStep =
  | { readonly kind: 'key'; readonly key: string }
  /** An index into the list before any removal. */
  | { readonly kind: 'index'; readonly index: number }
  | MatchStep

/** `[target.dev=vdb]`: every item with this value at this path. */
export interface MatchStep {
  readonly kind: 'match'
  /** The path as text. */
  readonly at: string
  readonly path: readonly string[]
  readonly value: string
}

const stepForm = /\.?([^.[\]]+)|\[([^\]]+)\]/y

/**
 * Parses a path such as `domain.devices.disks[target.dev=vdb]`, `domain.devices.tpms[0]` or
 * `nodeSelector[kubernetes.io/arch]`.
 * @returns undefined if `text` is not such a path
 */
export function parseRemovePath(text: string): RemovePath | undefined {
  const steps: RemoveStep[] = []
  stepForm.lastIndex = 0
  while (stepForm.lastIndex < text.length) {
    const isFirst = stepForm.lastIndex === 0
    const found = stepForm.exec(text)
    if (found === null || text.startsWith('.')) return undefined
    const [whole, key, bracket] = found
    if (key !== undefined && !isFirst && !whole.startsWith('.')) return undefined
    steps.push(key === undefined ? bracketStep(bracket ?? '') : { kind: 'key', key })
  }
  return steps[0]?.kind === 'key' ? { text, steps } : undefined
}

function bracketStep(text: string): RemoveStep {
  if (/^\d{1,6}$/.test(text)) return { kind: 'index', index: Number(text) }
  const equals = text.indexOf('=')
  if (equals <= 0) return { kind: 'key', key: text }
  const at = text.slice(0, equals)
  return { kind: 'match', at, path: at.split('.'), value: text.slice(equals + 1) }
}

/** What a step names. */
type Place = string | number | typeof anyItem
const anyItem = Symbol('any item')

/** Whether a path may name what one of these `remove` paths removed: the same keys, and an index for each item. */
export function canRemove(removes: readonly RemovePath[], path: string): boolean {
  const [root, ...keys] = pathKeys(path)
  const places = inLists(keys, 0)
  return root === 'spec' && removes.some((remove) => isBelow(placesOf(remove), places))
}

const isBelow = (removed: readonly Place[], places: readonly Place[]): boolean =>
  removed.length <= places.length && removed.every((place, index) => isAt(place, places[index]))

const isAt = (removed: Place, place: Place | undefined): boolean =>
  removed === anyItem ? typeof place === 'number' : removed === place || removed === String(place)

const placesOfPaths = new WeakMap<RemovePath, readonly Place[]>()

function placesOf(remove: RemovePath): readonly Place[] {
  const known = placesOfPaths.get(remove)
  if (known !== undefined) return known
  const places = remove.steps.map((step) =>
    step.kind === 'key' ? step.key : step.kind === 'index' ? step.index : anyItem,
  )
  const made = inLists(places, anyItem)
  placesOfPaths.set(remove, made)
  return made
}

/** With each short key as its list and an item. */
function inLists(places: readonly Place[], item: Place): readonly Place[] {
  let at = virtualMachineStructure().field('spec')
  return places.flatMap((place) => {
    const list = at?.kind === 'object' ? at.singles.get(String(place)) : undefined
    if (at?.kind === 'object') at = at.field(String(place))
    else at = at?.kind === 'list' ? at.item : undefined
    return list === undefined ? [place] : [list, item]
  })
}
