import { isDeepStrictEqual } from 'node:util'
import type { Origin } from '../api/cause.ts'
import { parentPath } from '../api/path.ts'
import type { VirtualMachine } from '../api/virtual-machine.ts'
import { lazy } from '../presets/lazy.ts'
import { deviceAround, deviceGiving, grantFields, hostPaths, isOptionOfSource, sourceAround } from '../presets/grant.ts'
import type { Stated } from '../presets/granted.ts'
import type { Injection } from '../presets/inject.ts'
import { withoutLeaves } from './reproduce.ts'
import { leavesBelow, valueAtPath } from './origins.ts'

/** The values of a VM that cluster presets grant. */
export interface Grants {
  /** Whether they grant the value at a path, including its presence. */
  readonly isGranted: (path: string) => boolean
  /** Whether they state a leaf. */
  readonly isStated: (path: string) => boolean
  /**
   * Whether one of them states another value for a leaf of a device or source. Then the default is another device than
   * the one it grants.
   */
  readonly isOverruled: (path: string) => boolean
  /** Whether presets removed a part of a device in the same list, which defaults would complete to another device. */
  readonly isCut: (path: string) => boolean
  /** A leaf that is missing beside a path, without which presets do not grant it. */
  readonly missingAt: (path: string) => string | undefined
}

/** The VM after presets and before defaults, from which grants are determined. */
type Injected = Pick<Injection, 'vm' | 'grants' | 'removed' | 'cut'>

/** Presets grant the values that they state and that existed before the defaults. Defaults need no grant. */
export function injectedGrants({ vm, grants, removed, cut }: Injected): Grants {
  const isCut = cutBy(removed)
  const isCutPlace = cutPlaces(cut)
  const { isStated, isOverruled, missingAt } = placesOf(vm, grants.injected)
  return {
    isGranted: (path) => {
      const before = valueAtPath(vm, path)
      if (before === undefined) return !isCut(path)
      return !isCutPlace(path) && leavesBelow(before, path).every(isStated)
    },
    isStated,
    isOverruled,
    isCut,
    missingAt,
  }
}

const devicePath = /^spec\.(domain\.devices\.\w+|hostDevices|resourceClaims|taps)\[\d+\]/
const sourcePath = /^spec\.domain\.devices\.\w+\[\d+\]\.sources?\b/
const storePath = /^spec\.domain\.os\.nvram(?=\.)/
const entryPath = /^(spec\.(?:hostDevices|resourceClaims|taps))\[\d+\]$/
/** The list of devices that a path is in, or the element of the domain, of `os`, or of the spec. */
const deviceList = (path: string): string | undefined => /^spec\.(?:domain\.(?:(?:devices|os)\.)?)?\w+/.exec(path)?.[0]

/**
 * Compares lists rather than items, because a removal shifts the items that follow. A preset of the cluster can remove
 * an option and leave it to the defaults, but not a part of what identifies the device.
 */
function cutBy(removed: ReadonlyMap<string, Origin>): (path: string) => boolean {
  const isCutting = (path: string, origin: Origin): boolean =>
    origin.by === 'preset' && !path.endsWith(']') && (origin.namespace !== undefined || sourcePath.test(path))
  const lists = new Set([...removed].flatMap(([path, origin]) => (isCutting(path, origin) ? [deviceList(path)] : [])))
  return (path) => lists.size > 0 && lists.has(deviceList(path))
}

/**
 * An entry that stands for something of the node is one place (`nodePaths`), and so is a source. A preset of the
 * namespace that removes a part of one makes it another that nobody states: a tap without its network is in that of the
 * pod, and a block device without its slices is all of it.
 */
const cutPlaces =
  (cut: ReadonlySet<string>) =>
  (path: string): boolean =>
    cut.has(entryPath.exec(path)?.[1] ?? '') ||
    cut.has(sourceAround(path) ?? '') ||
    (/\.(?:sources?|log)\b/.test(path) && cut.has(devicePath.exec(path)?.[0] ?? ''))

/**
 * Whether one cluster preset states everything in a path's device that reaches the host, with the source around it, and
 * nothing of that is missing. Halves of two devices would combine into a third, and a block device without its slices
 * is all of it.
 */
function placesOf(vm: VirtualMachine, { grantorsAt, overruledAt, whole, unsettled }: Stated) {
  // The structure is that of VMs.
  const complete = { ...vm, ...whole } as VirtualMachine
  const places = lazy(() => Map.groupBy(hostPaths(complete.spec), (path) => unitOf(path) ?? path))
  const unitAt = (path: string): string => unitOf(path) ?? ancestorIn(places(), path)
  const disputed = lazy(() => Map.groupBy(unsettled, unitAt))
  const fields = lazy(() => Map.groupBy(grantFields(complete.spec.domain), ({ path }) => deviceAround(path)))
  const judge = (unit: string) => {
    const own = places().get(unit) ?? []
    const leaves = [...new Set(own.map((place) => sourceAround(place) ?? place))]
      .flatMap((place) => leavesBelow(valueAtPath(complete, place), place))
      .filter((leaf) => !isOptionOfSource(leaf))
    const [first, ...others] = leaves.map(grantorsAt).filter((found) => found.length > 0)
    const isOne = first === undefined || first.some((origin) => others.every((found) => found.includes(origin)))
    const beside = own.some((place) => deviceGiving(place) === unit) ? (fields().get(unit) ?? []) : []
    const ofGrant = beside.flatMap(({ path, value }) => leavesBelow(value, path))
    const needed = [...leaves, ...ofGrant, ...(disputed().get(unit) ?? [])]
    const missing = needed.find((leaf) => valueAtPath(vm, leaf) === undefined)
    const losing = new Set([...leaves, `${unit}.type`].flatMap(overruledAt))
    return { isOne, missing, losing, ofPlaces: new Set(leaves) }
  }
  const known = new Map<string, ReturnType<typeof judge>>()
  const judgedAt = (path: string) => {
    const unit = unitAt(path)
    const found = known.get(unit) ?? judge(unit)
    known.set(unit, found)
    return found
  }
  return {
    isStated: (path: string): boolean => {
      const grantors = grantorsAt(path)
      if (grantors.length === 0) return false
      const { isOne, missing, ofPlaces, losing } = judgedAt(path)
      if (missing !== undefined) return false
      if (unitOf(path) === undefined) return true
      // A preset that states another device here does not state the options, or the format, of this one.
      return isOne && (ofPlaces.has(path) || grantors.some((origin) => !losing.has(origin)))
    },
    // Elsewhere, such as for the emulator, the default is no part of something else.
    isOverruled: (path: string): boolean => unitOf(path) !== undefined && overruledAt(path).length > 0,
    missingAt: (path: string): string | undefined => judgedAt(path).missing,
  }
}

/** What one preset must grant: a device, the variable store, or another source outside of lists. */
const unitOf = (path: string): string | undefined =>
  devicePath.exec(path)?.[0] ?? deviceAround(path) ?? storePath.exec(path)?.[0] ?? sourceAround(path)

function ancestorIn(known: ReadonlyMap<string, unknown>, path: string): string {
  for (let at = path; at !== ''; at = parentPath(at)) if (known.has(at)) return at
  return path
}

/**
 * The grants of a stored VM, for values equal to those of `drafted`, the injection's result with defaults. A device
 * must be equal as a whole: where presets remove items, another device can stand at the same index.
 */
export function draftedGrants(stored: VirtualMachine, drafted: VirtualMachine, injected: Injected): Grants {
  const { isGranted, isStated, ...others } = injectedGrants(injected)
  const isSame = (path: string): boolean => isSameDevice(path, stored, drafted)
  return {
    isGranted: (path) => isSame(path) && isGranted(path),
    isStated: (path) => isSame(path) && isStated(path),
    ...others,
  }
}

/** Whether two VMs have the same device at a path, or outside of devices the same value. */
function isSameDevice(path: string, one: VirtualMachine, other: VirtualMachine): boolean {
  const place = devicePath.exec(path)?.[0] ?? deviceAround(path) ?? path
  return isDeepStrictEqual(valueAtPath(one, place), valueAtPath(other, place))
}

/**
 * The grants of a stored VM that completion does not reproduce, because a preset has changed since or removes by index.
 * A device without an option that is enforced for it (`readonly`), or without a part of a place (the slices of a block
 * device), is another one, and is not granted: a VM that was stored without the webhooks can claim that it is complete.
 */
export function statedGrants(stored: VirtualMachine, { grants, removed, cut }: Injected): Grants {
  const { isOverruled, missingAt, ...places } = placesOf(stored, grants.statedOf(stored))
  const enforced = lazy(() => ({ ...stored, ...grants.enforceOn(stored) }) as VirtualMachine)
  const isStated = (path: string): boolean => places.isStated(path) && isSameDevice(path, stored, enforced())
  const isCutPlace = cutPlaces(cut)
  return {
    isGranted: (path) => !isCutPlace(path) && leavesBelow(valueAtPath(stored, path), path).every(isStated),
    isStated,
    isOverruled,
    isCut: cutBy(removed),
    missingAt,
  }
}

/**
 * Whether defaults alone would set the leaves at a path that presets do not state: then a user who repeats them gains
 * nothing.
 * @param fillings returns a VM with the defaults of each kind of node that it may have been completed for
 */
export function defaultsAlone(
  vm: VirtualMachine,
  reaching: readonly string[],
  { isStated, isOverruled }: Grants,
  fillings: (bare: VirtualMachine) => readonly VirtualMachine[],
): (field: string) => boolean {
  if (reaching.length === 0) return () => false
  const unstated = (field: string): readonly string[] =>
    leavesBelow(valueAtPath(vm, field), field).filter((path) => !isStated(path))
  // Also what defaults have set: they copy the socket of a screen to its listener, and would copy it back.
  const left = new Set([...hostPaths(vm.spec), ...reaching].flatMap(unstated))
  const bare = withoutLeaves(vm, (path) => left.has(path))
  const filled = fillings(bare)
  return (field) => {
    const paths = unstated(field)
    // All are stated, but not all that belongs to them.
    if (paths.length === 0) return false
    if (paths.some((path) => isOverruled(path) || valueAtPath(bare, path) !== undefined)) return false
    const isEqual = (one: VirtualMachine) => (path: string) =>
      isDeepStrictEqual(valueAtPath(one, path), valueAtPath(vm, path))
    return filled.some((one) => paths.every(isEqual(one)))
  }
}
