import { isDeepStrictEqual } from 'node:util'
import { parseVirtualMachine, type VirtualMachine } from '../api/virtual-machine.ts'
import { isRecord } from '../api/schema.ts'
import { joinPath, parentPath, relatedTo } from '../api/path.ts'
import { isHolder } from './defaults/apply.ts'
import { originOf } from './origins.ts'
import type { Provenance } from './provenance.ts'

/** The part of a provenance that records what the user of a VM sent. */
type Claim = Pick<Provenance, 'origins' | 'overridden'>

/**
 * The VM that its user sent, according to a provenance: without what presets and defaults put there, and with what
 * presets overrode. If the overridden value is unknown, the current one is used.
 */
export function asSent(vm: VirtualMachine, claim: Claim): VirtualMachine {
  const lost = lostByUser(claim)
  const isLost = relatedTo(lost.keys())
  const isClaimed = (path: string): boolean => originOf(claim.origins, path).by !== 'user' && !isLost(path)
  return withValues(withoutLeaves(vm, isClaimed), lost)
}

/**
 * Finds a VM that the user may have sent, such that completing it gives the current VM. The claim is only a hint where
 * to look: a claimed leaf is left out while completion puts the same value in the same place, and is the user's
 * otherwise.
 *
 * @param complete gives a VM its presets and defaults, as they are now and then as they may have been
 * @returns what `complete` made of the VM that was found; of the given VM itself if no other gives it
 */
export function reproduce<T extends { readonly vm: VirtualMachine }>(
  vm: VirtualMachine,
  claim: Claim,
  complete: (input: VirtualMachine) => Iterable<T>,
): T {
  const leaves = leavesOf(vm)
  const claimed = new Set([...leaves.keys()].filter((path) => originOf(claim.origins, path).by !== 'user'))
  const lost = new Map([...lostByUser(claim)].filter(([path, value]) => claimed.has(path) && value !== undefined))
  for (let round = 0; round < maxRounds && claimed.size > 0; round += 1) {
    let unmet: readonly string[] | undefined
    for (const outcome of complete(inputOf(vm, claimed, lost))) {
      const made = leavesOf(outcome.vm)
      const missing = [...claimed].filter((path) => !isDeepStrictEqual(made.get(path), leaves.get(path)))
      if (missing.length === 0) return outcome
      unmet ??= missing
      // Earlier capabilities are tried only for an unchanged VM; a forged claim must not cost a round for each kind of
      // node.
      if (round > 0) break
    }
    const places = new Set(unmet?.map(placeOf))
    for (const path of [...claimed].filter((one) => places.has(placeOf(one)))) {
      claimed.delete(path)
      lost.delete(path)
    }
  }
  const [first] = complete(vm)
  if (first === undefined) throw new Error('a VM was not completed at all')
  return first
}

/** Leaves in one object belong together (half an address is useless), except in large objects. */
const placeOf = (path: string): string => {
  const above = parentPath(path)
  return large.has(above) ? path : above
}

const large: ReadonlySet<string> = new Set([
  'metadata.labels',
  'metadata.annotations',
  'spec',
  'spec.domain',
  'spec.domain.devices',
])

/** One is enough for a VM that was completed with the same presets; each further one keeps more of what was claimed. */
const maxRounds = 3

/** The overridden values come from the annotation and may be anything: they are used only if the result is a VM. */
function inputOf(vm: VirtualMachine, claimed: ReadonlySet<string>, lost: ReadonlyMap<string, unknown>): VirtualMachine {
  if (lost.size > 0) {
    const input = withValues(
      withoutLeaves(vm, (path) => claimed.has(path) && !lost.has(path)),
      lost,
    )
    if ('vm' in parseVirtualMachine(input)) return input
  }
  return withoutLeaves(vm, (path) => claimed.has(path))
}

/**
 * Paths at which a preset overrode the user, with what the user had written; undefined where that was too long to be
 * stored.
 */
const lostByUser = ({ overridden }: Claim): ReadonlyMap<string, unknown> =>
  new Map(
    [...overridden].flatMap(([path, values]) => {
      const users = values.find(({ origin }) => origin.by === 'user')
      return users === undefined ? [] : [[path, users.value] as const]
    }),
  )

/** Scalars, and empty objects and lists, of everything that completion may fill in, in the order of the JSON. */
export function leavesOf({ metadata: { labels = {}, annotations = {} }, spec }: VirtualMachine) {
  const leaves = new Map<string, unknown>()
  const visit = (value: unknown, path: string): void => {
    if (!isHolder(value)) leaves.set(path, value)
    else if (Array.isArray(value)) for (const [index, item] of value.entries()) visit(item, joinPath(path, index))
    else for (const [key, member] of Object.entries(value)) visit(member, joinPath(path, key))
  }
  visit(labels, 'metadata.labels')
  visit(annotations, 'metadata.annotations')
  visit(spec, 'spec')
  return leaves
}

/**
 * The VM without some of its leaves, and without what then holds nothing. Completion appends to lists: an item before
 * one that remains stays whole, so that no item changes its place.
 */
export function withoutLeaves(vm: VirtualMachine, isLeft: (path: string) => boolean): VirtualMachine {
  const visit = (value: unknown, path: string): unknown => {
    if (!isHolder(value)) return !roots.has(path) && completable.test(path) && isLeft(path) ? undefined : value
    if (Array.isArray(value)) {
      const items = value.map((item, index) => visit(item, joinPath(path, index)))
      const last = items.findLastIndex((item) => item !== undefined)
      return last === -1 ? undefined : items.slice(0, last + 1).map((item, index) => item ?? value[index])
    }
    const members = Object.entries(value).flatMap(([key, member]) => {
      const left = visit(member, joinPath(path, key))
      return left === undefined ? [] : [[key, left] as const]
    })
    return members.length === 0 && !roots.has(path) ? undefined : Object.fromEntries(members)
  }
  // Only parts that a user may omit were left out.
  return visit(vm, '') as VirtualMachine
}

/** Parts of a VM that are always there, however empty. */
const roots: ReadonlySet<string> = new Set(['', 'metadata', 'spec', 'spec.domain'])

const completable = /^(?:spec|metadata\.(?:labels|annotations))\b/

/** The VM with these values in the place of others, where there are any. */
function withValues(vm: VirtualMachine, values: ReadonlyMap<string, unknown>): VirtualMachine {
  if (values.size === 0) return vm
  const visit = (value: unknown, path: string): unknown => {
    if (completable.test(path) && values.get(path) !== undefined) return values.get(path)
    if (Array.isArray(value)) return value.map((item, index) => visit(item, joinPath(path, index)))
    if (!isRecord(value)) return value
    return Object.fromEntries(Object.entries(value).map(([key, member]) => [key, visit(member, joinPath(path, key))]))
  }
  // Either the provenance is that of a stored VM, whose values were its user's in these very places, or the result is
  // parsed.
  return visit(vm, '') as VirtualMachine
}

/** The same value with its keys in the order of another, so that a VM that is completed again reads as it did. */
export function inOrderOf(value: unknown, like: unknown): unknown {
  if (Array.isArray(value))
    return value.map((item, index) => inOrderOf(item, Array.isArray(like) ? like[index] : undefined))
  if (!isRecord(value) || !isRecord(like)) return value
  const keys = new Set([...Object.keys(like).filter((key) => Object.hasOwn(value, key)), ...Object.keys(value)])
  return Object.fromEntries([...keys].map((key) => [key, inOrderOf(value[key], like[key])]))
}
