import { isDeepStrictEqual } from 'node:util'
import type { Origin } from '../api/cause.ts'
import { parseVirtualMachine, type VirtualMachine } from '../api/virtual-machine.ts'
import { isRecord } from '../api/schema.ts'
import { joinPath, parentPath, pathText, relatedTo, rootPath, withPathsAbove, type Path } from '../api/path.ts'
import type { Shortened } from '../presets/origins.ts'
import { isHolder } from './defaults/apply.ts'
import { originOf } from './origins.ts'
import type { DecodedProvenance, Origins, Provenance } from './provenance.ts'

/** The part of a provenance that records what the user of a VM sent. */
type Claim = Pick<Provenance, 'origins' | 'overridden'> & Pick<DecodedProvenance, 'filled'>

/**
 * Restores the VM that its user sent, according to a provenance: without what presets and defaults added, and with what
 * presets overrode. If the overridden value is unknown, the current one is used.
 */
export function asSent(vm: VirtualMachine, claim: Claim): VirtualMachine {
  const lost = lostByUser(claim)
  const isLost = relatedTo(lost.keys())
  const isClaimed = (path: string): boolean => originOf(claim.origins, path).by !== 'user' && !isLost(path)
  return withValues(withoutLeaves(vm, isClaimed, claim.filled), lost)
}

/**
 * Finds a VM that the user may have sent, such that completing it gives the current VM. The claim is only a hint: a
 * claimed leaf is omitted as long as completion adds the same value in the same place; otherwise it is the user's.
 * @param complete completes a VM with the current capabilities, then with those that it may have been completed with
 * before
 * @returns the outcome of completing the VM that was found, or the given VM itself if there is no other
 */
export function reproduce<T extends { readonly vm: VirtualMachine }>(
  vm: VirtualMachine,
  claim: Claim,
  complete: (input: VirtualMachine) => Iterable<T>,
): T {
  const leaves = claimedLeavesOf(vm, claim.origins)
  const claimed = new Set(leaves.keys())
  const withClaimed = withPathsAbove(claimed)
  const isAbove = (path: string) => withClaimed.has(path)
  const lost = lostFrom(vm, claim, withClaimed, claimed)
  for (let round = 0; round < maxRounds && claimed.size > 0; round += 1) {
    let unmet: readonly string[] | undefined
    for (const outcome of complete(inputOf(vm, claimed, claim.filled, lost, isAbove))) {
      const made = leavesOf(outcome.vm, isAbove)
      const missing = [...claimed].filter((path) => !isDeepStrictEqual(made.get(path), leaves.get(path)))
      if (missing.length === 0) return outcome
      unmet ??= missing
      // Earlier capabilities are tried only for an unchanged VM, so that a forged claim does not cost a round for each
      // kind of node.
      if (round > 0) break
    }
    const places = new Set(unmet?.map(placeOf))
    const dropped = [...claimed].filter((one) => places.has(placeOf(one)))
    for (const path of dropped) claimed.delete(path)
    for (const path of withPathsAbove(dropped)) lost.delete(path)
  }
  const [first] = complete(vm)
  if (first === undefined) throw new Error('a VM was not completed at all')
  return first
}

/** Leaves of one object are dropped together (half an address is useless), except in large objects. */
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

/** One round is enough if the presets have not changed; each further one recovers more of the claim. */
const maxRounds = 3

/**
 * The overridden values come from the annotation and may be anything, so the result must be a valid VM.
 * @param isAbove whether a path is one that was claimed, or above one
 */
function inputOf(
  vm: VirtualMachine,
  claimed: ReadonlySet<string>,
  filled: ReadonlySet<string>,
  lost: ReadonlyMap<string, unknown>,
  isAbove: (path: string) => boolean,
): VirtualMachine {
  if (lost.size > 0) {
    const isLost = relatedTo(lost.keys())
    const input = withValues(
      withoutLeaves(vm, (path) => claimed.has(path) && !isLost(path), filled, isAbove),
      lost,
    )
    if ('vm' in parseVirtualMachine(input)) return input
  }
  return withoutLeaves(vm, (path) => claimed.has(path), filled, isAbove)
}

/** The overridden values at and above claimed leaves. A value and its unit are overridden together. */
function lostFrom(
  vm: VirtualMachine,
  claim: Claim,
  withClaimed: ReadonlySet<string>,
  claimed: ReadonlySet<string>,
): Map<string, unknown> {
  const lost = new Map([...lostByUser(claim)].filter(([path, value]) => withClaimed.has(path) && value !== undefined))
  const others = [...leavesOf(vm, relatedTo(lost.keys())).keys()].filter((path) => !claimed.has(path))
  for (const path of withPathsAbove(others)) lost.delete(path)
  return lost
}

/** Paths at which a preset overrode the user, with the user's value; undefined if that was too long to be stored. */
const lostByUser = ({ overridden }: Claim): ReadonlyMap<string, unknown> =>
  new Map(
    [...overridden].flatMap(([path, values]) => {
      const users = values.find(({ origin }) => origin.by === 'user')
      return users === undefined ? [] : [[path, users.value] as const]
    }),
  )

/**
 * Leaves (scalars, empty objects and lists) of everything that completion may fill in, in the order of the JSON.
 * @param isSought what is at other paths, and below them, is left out
 */
function leavesOf(vm: VirtualMachine, isSought: (path: string) => boolean): ReadonlyMap<string, unknown> {
  const leaves = new Map<string, unknown>()
  const visit = (value: unknown, path: string): void => {
    if (!isSought(path)) return
    if (!isHolder(value)) leaves.set(path, value)
    else eachMember(value, path, visit)
  }
  for (const [path, value] of completableOf(vm)) visit(value, path)
  return leaves
}

/**
 * The leaves whose origin is not the user. Parts without any are not visited: in a VM of a megabyte, completion adds
 * little, and the paths of its values, which can be nested deeply, take many times its size.
 */
function claimedLeavesOf(vm: VirtualMachine, origins: Origins): ReadonlyMap<string, unknown> {
  const leaves = new Map<string, unknown>()
  const known = withPathsAbove(origins.keys())
  const visit = (value: unknown, path: string, above: Origin): void => {
    const origin = origins.get(path) ?? above
    if (origin.by === 'user' && !known.has(path)) return
    if (isHolder(value)) eachMember(value, path, (member, at) => visit(member, at, origin))
    else if (origin.by !== 'user') leaves.set(path, value)
  }
  for (const [path, value] of completableOf(vm)) visit(value, path, originOf(origins, parentPath(path)))
  return leaves
}

const completableOf = ({ metadata: { labels = {}, annotations = {} }, spec }: VirtualMachine) =>
  [
    ['metadata.labels', labels],
    ['metadata.annotations', annotations],
    ['spec', spec],
  ] as const

function eachMember(holder: object, path: string, visit: (member: unknown, path: string) => void): void {
  if (Array.isArray(holder)) for (const [index, item] of holder.entries()) visit(item, joinPath(path, index))
  else for (const [key, member] of Object.entries(holder)) visit(member, joinPath(path, key))
}

/**
 * Removes some leaves of a VM, and objects and lists that become empty. Completion appends to lists, so an item before
 * one that remains is left whole: no item changes its index.
 * @param kept objects and lists that remain even if they are empty
 * @param isAbove whether such leaves can be at or below a path; without it, all are visited
 */
export function withoutLeaves(
  vm: VirtualMachine,
  isLeft: (path: string) => boolean,
  kept: ReadonlySet<string> = roots,
  isAbove: (path: string) => boolean = () => true,
): VirtualMachine {
  const visit = (value: unknown, path: string): unknown => {
    if (path !== '' && !isAbove(path)) return value
    if (!isHolder(value)) return !roots.has(path) && completable.test(path) && isLeft(path) ? undefined : value
    if (Array.isArray(value)) {
      const items = value.map((item, index) => visit(item, joinPath(path, index)))
      const last = items.findLastIndex((item) => item !== undefined)
      if (last === -1) return kept.has(path) ? [] : undefined
      return items.slice(0, last + 1).map((item, index) => item ?? value[index])
    }
    const members = Object.entries(value).flatMap(([key, member]) => {
      const left = visit(member, joinPath(path, key))
      return left === undefined ? [] : [[key, left] as const]
    })
    return members.length === 0 && !roots.has(path) && !kept.has(path) ? undefined : Object.fromEntries(members)
  }
  // Only parts that a user may omit were removed.
  return visit(vm, '') as VirtualMachine
}

/**
 * The paths of empty objects and lists of the user that completion filled.
 * @param shortened lists that lost items, so that others have another index now
 */
export function filledObjects(
  sent: VirtualMachine,
  made: VirtualMachine,
  shortened: ReadonlyMap<string, Shortened>,
): ReadonlySet<string> {
  const found = new Set<string>()
  const visit = (one: unknown, other: unknown, path: Path): void => {
    if (one === other || !isHolder(other)) return
    if (!isHolder(one)) {
      if (isRecord(one) || Array.isArray(one)) found.add(pathText(path))
      return
    }
    if (!Array.isArray(one)) {
      for (const key of Object.keys(one)) visit(Reflect.get(one, key), Reflect.get(other, key), { parent: path, key })
      return
    }
    const missing = shortened.size === 0 ? undefined : shortened.get(pathText(path))?.missing
    const left: readonly unknown[] = missing === undefined ? one : one.filter((_, index) => !missing.has(index))
    for (const [key, item] of left.entries()) visit(item, Reflect.get(other, key), { parent: path, key })
  }
  visit(sent.spec, made.spec, { parent: rootPath, key: 'spec' })
  return found
}

/** Parts of a VM that are always present, even if empty. */
const roots: ReadonlySet<string> = new Set(['', 'metadata', 'spec', 'spec.domain'])

const completable = /^(?:spec|metadata\.(?:labels|annotations))\b/

/** Replaces values of the VM at paths that exist. */
function withValues(vm: VirtualMachine, values: ReadonlyMap<string, unknown>): VirtualMachine {
  if (values.size === 0) return vm
  const visit = (value: unknown, path: string): unknown => {
    if (completable.test(path) && values.get(path) !== undefined) return values.get(path)
    if (Array.isArray(value)) return value.map((item, index) => visit(item, joinPath(path, index)))
    if (!isRecord(value)) return value
    return Object.fromEntries(Object.entries(value).map(([key, member]) => [key, visit(member, joinPath(path, key))]))
  }
  // Either the provenance belongs to a stored VM, where the user had these values at these paths, or the caller parses
  // the result.
  return visit(vm, '') as VirtualMachine
}

/** Orders the keys of a value like those of another, so that a VM that is completed again looks the same. */
export function inOrderOf(value: unknown, like: unknown): unknown {
  if (Array.isArray(value))
    return value.map((item, index) => inOrderOf(item, Array.isArray(like) ? like[index] : undefined))
  if (!isRecord(value) || !isRecord(like)) return value
  const keys = new Set([...Object.keys(like).filter((key) => Object.hasOwn(value, key)), ...Object.keys(value)])
  return Object.fromEntries([...keys].map((key) => [key, inOrderOf(value[key], like[key])]))
}
