import { isDeepStrictEqual } from 'node:util'
import type { Capabilities } from '../api/capabilities.ts'
import type { Cause, Origin } from '../api/cause.ts'
import { capCauses } from '../api/causes.ts'
import { completedByAnnotation, type MachineSpec, type VirtualMachine } from '../api/machine.ts'
import type { ObjectMeta } from '../api/object.ts'
import { maxSteps, sizeOf, unmetered, within } from '../api/steps.ts'
import { inject, type InjectOptions, type Injection } from '../presets/inject.ts'
import { joinPath, relatedTo } from '../presets/path.ts'
import type { Added } from './defaults/apply.ts'
import { fillDefaults } from './defaults/defaults.ts'
import { macAddress, uuid, virtualPort } from './defaults/identity.ts'
import type { Context, Entropy } from './defaults/rule.ts'
import { lazyMap } from './lazy-map.ts'
import { type Judged, tellNodes } from './lack.ts'
import { tooMuchWork } from './too-much-work.ts'
import type { NodeCapabilities, Provided } from './nodes.ts'
import { allOrigins, originOf, originWithin, ruleAt, valueAtPath, withoutClaims } from './origins.ts'
import { decodeProvenance, encodeProvenance, type Attribution, type Origins, type Provenance } from './provenance.ts'
import { reach } from './rules/reach.ts'
import { checkRules } from './rules/rules.ts'

export interface CompleteOptions extends InjectOptions {
  /** Of one kind of node, or of the nodes of a cluster: then those count that the VM may come to, presets included. */
  readonly capabilities: Capabilities | NodeCapabilities
  readonly entropy: Entropy
  /** Lets the user write what reaches the host. For trying things offline; never at admission. */
  readonly allowHostReach?: boolean
  /** Leaves out the rules, reach among them: what would come out, valid or not. Offline only. */
  readonly skipRules?: boolean
  /**
   * The domain is libvirt's own, from its XML: it is completed as libvirt reads again what it has stored, which is less than what it
   * fills in for a domain that is new (USB ports, a versioned machine type). Offline only.
   */
  readonly isStored?: boolean
  /** The paths of what was wrong by itself and is left out of the VM (`faultlessMachine`): of what hangs on them nothing is said. */
  readonly without?: readonly string[]
  /** Leaves out the annotation, a sixth of the work, where nothing is stored. */
  readonly skipAnnotation?: boolean
  /** Whether another VM of the cluster has a MAC address (lower case, with colons); without it only those of the VM are known. */
  readonly isMacTaken?: (address: string) => boolean
  /** Told as each part of the work is done, by who wants to measure; completion itself reads no clock. */
  readonly onPhase?: (phase: Phase) => void
}

export type Phase = 'claim' | 'presets' | 'defaults' | 'rules' | 'provenance'

/** Presets that looked on, and what is to be told whatever came out. */
type Told = Pick<Injection, 'audit' | 'participants' | 'warnings'>

export interface Completed extends Told, Provenance {
  readonly outcome: 'completed'
  /** Whole and valid, with its provenance in the annotation. */
  readonly machine: VirtualMachine
}

export interface Refused extends Told {
  readonly outcome: 'refused'
  /** Everything that is wrong, at once. */
  readonly causes: readonly Cause[]
}

/**
 * Completes a VM: presets by their layers, then what libvirt itself would fill in, then the rules over the whole. Pure: the same
 * arguments give the same answer, nothing that comes in is changed, and a VM that is complete comes back with nothing added.
 *
 * A VM that comes with a provenance was completed before, or says so. The claim is proved leaf by leaf: the VM without what is claimed
 * for presets and defaults is completed, and what comes back just as it was is theirs. The rest is its user's, and judged so.
 *
 * @param machine a VM whose shape was checked at the door (`parseMachine`)
 */
export function complete(machine: VirtualMachine, options: CompleteOptions): Completed | Refused {
  return within(
    maxSteps,
    (steps) => completeClaimed(machine, { ...options, steps }),
    () => ({ outcome: 'refused', causes: [tooMuchWork(machine, options)], audit: [], participants: [], warnings: [] }),
  )
}

function completeClaimed(machine: VirtualMachine, options: CompleteOptions): Completed | Refused {
  const { [completedByAnnotation]: claim, ...annotations } = machine.metadata.annotations ?? {}
  if (claim === undefined) return completeBare(machine, unclaimed, options)
  const bare = { ...machine, metadata: { ...machine.metadata, annotations } }
  const claimed = decodeProvenance(claim)
  const proven = claimed === undefined ? unclaimed : prove(bare, claimed, options)
  options.onPhase?.('claim')
  return completeBare(bare, proven, options)
}

/** What of a claim holds. */
type Proven = Pick<Provenance, 'origins' | 'overridden' | 'removed'>

const unclaimed: Proven = { origins: new Map(), overridden: new Map(), removed: new Map() }

function prove(machine: VirtualMachine, claimed: Provenance, options: CompleteOptions): Proven {
  const again = inject(withoutClaims(machine, withoutDrawn(claimed.origins)), options)
  const leaves = leavesOf(machine)
  const origins = new Map<string, Origin>()
  for (const capabilities of everKnown(again.machine.spec, options)) {
    const { spec, added } = fill(again.machine, capabilities, options)
    const found = allOrigins(again.origins, added, spec.domain)
    const values = leavesOf({ ...again.machine, spec })
    let isWhole = true
    for (const [path, value] of leaves) {
      if (origins.has(path)) continue
      const claim = originOf(claimed.origins, path)
      const origin = isDrawn(claim) && drawnPaths.test(path) ? claim : found.get(path)
      if (origin !== undefined && (isDrawn(origin) || isSameLeaf(values, path, value))) origins.set(path, origin)
      else if (claim.by === 'default') isWhole = false
    }
    if (isWhole) break
  }
  const isHere = (origin: Origin): boolean =>
    again.participants.some(({ preset }) => isDeepStrictEqual(preset.origin, origin))
  return {
    origins,
    overridden: new Map([...claimed.overridden].filter(([path]) => origins.has(path))),
    removed: new Map([...claimed.removed].filter(([, origin]) => isHere(origin))),
  }
}

/**
 * What a VM may have been completed for: first what counts for it now. It is the same VM after a node came or went, and a default that was
 * right then is no value of its user's.
 */
const everKnown = (spec: MachineSpec, options: CompleteOptions): ReadonlySet<Capabilities> =>
  new Set([
    providedFor(spec, options).capabilities,
    ...('known' in options.capabilities ? options.capabilities.known : []),
  ])

/** What the nodes can do that a VM with this spec, presets included, may come to. */
export const providedFor = (spec: MachineSpec, { capabilities }: Pick<CompleteOptions, 'capabilities'>): Provided =>
  'providedFor' in capabilities ? capabilities.providedFor(spec) : { capabilities, groups: [], outliers: [] }

const isSameLeaf = (values: ReadonlyMap<string, unknown>, path: string, value: unknown): boolean =>
  values.has(path) && isDeepStrictEqual(values.get(path), value)

function completeBare(machine: VirtualMachine, proven: Proven, options: CompleteOptions): Completed | Refused {
  const injection = inject(machine, options)
  const { audit, participants } = injection
  options.onPhase?.('presets')
  const provided = providedFor(injection.machine.spec, options)
  const { spec, added } = fill(injection.machine, provided.capabilities, options)
  options.onPhase?.('defaults')
  const stated = proven === unclaimed ? injection.origins : new Map([...proven.origins, ...injection.origins])
  const judged = judge(injection, spec, { origins: stated, added }, provided, options)
  options.onPhase?.('rules')
  const isLeftOut = relatedTo(options.without ?? [])
  // A leaf that presets dispute is not there: what a rule says of it, or of what is above or below it, would be about nothing.
  const isDisputed = relatedTo(injection.unsettled)
  const found = [
    ...injection.causes.filter(({ field }) => !isLeftOut(field)),
    ...judged.causes.filter(({ field }) => !isDisputed(field) && !isLeftOut(field)),
  ]
  const causes = capCauses(found, 'spec')
  const told = { audit, participants, warnings: [...injection.warnings, ...judged.warnings] }
  if (causes.length > 0) return { outcome: 'refused', causes, ...told }

  const provenance = {
    overridden: new Map([...proven.overridden, ...injection.overridden]),
    removed: new Map([...proven.removed, ...injection.removed]),
    skipped: injection.skipped,
  }
  const completed = { ...injection.machine, spec }
  const annotated =
    options.skipAnnotation === true ? completed : annotate(completed, { ...provenance, origins: stated, added })
  options.onPhase?.('provenance')
  // Most who complete a VM never ask.
  const origins = lazyMap(() => allOrigins(stated, added, spec.domain))
  return { outcome: 'completed', machine: annotated, origins, ...provenance, ...told }
}

function fill(
  { metadata, spec }: VirtualMachine,
  capabilities: Capabilities,
  options: CompleteOptions,
): { spec: MachineSpec; added: Added } {
  const { steps = unmetered } = options
  steps.spend(sizeOf(spec.domain))
  const { domain, added } = fillDefaults(spec.domain, contextOf(metadata, capabilities, options))
  return { spec: added.size === 0 ? spec : { ...spec, domain }, added }
}

/** What the rules of defaults know beside the domain. */
export function contextOf(
  { name, generateName }: ObjectMeta,
  capabilities: Capabilities,
  { entropy, isStored = false, isMacTaken }: CompleteOptions,
): Context {
  const called = name ?? generateName
  return {
    capabilities,
    entropy,
    isNew: !isStored,
    ...(called === undefined ? {} : { name: called }),
    ...(isMacTaken === undefined ? {} : { isMacTaken }),
  }
}

function judge(
  injection: Injection,
  spec: MachineSpec,
  { origins, added }: { readonly origins: Origins; readonly added: Added },
  provided: Provided,
  options: CompleteOptions,
): Judged {
  if (options.skipRules) return { causes: [], warnings: [] }
  const { capabilities } = provided
  const { allowHostReach = false, without = [], isMacTaken, steps = unmetered } = options
  steps.spend(sizeOf(spec))
  const defaultAt = (path: string): Origin | undefined => {
    const rule = ruleAt(added, { spec }, path)
    return rule === undefined ? undefined : { by: 'default', rule }
  }
  const leafOrigin = (path: string): Origin => {
    const found = defaultAt(path) ?? originOf(origins, path)
    return found.by === 'user' ? originOf(injection.granted, path) : found
  }
  const origin = (path: string): Origin =>
    defaultAt(path) ?? originWithin(valueAtPath({ spec }, path), path, leafOrigin)
  const context = {
    originOf: origin,
    allowHostReach,
    without,
    ...(isMacTaken === undefined ? {} : { isMacTaken }),
  }
  const judged = checkRules(spec, { ...context, capabilities })
  const reaching = judged.causes.filter(({ rule }) => rule === reach.id)
  const ours = againstOwn(injection.machine, reaching, options)
  const causes = judged.causes.filter((cause) => !ours.has(cause))
  const onNode = (one: Capabilities) => checkRules(spec, { ...context, capabilities: one }).causes
  const told = tellNodes(causes, provided, onNode)
  return { causes: told.causes, warnings: [...judged.warnings, ...told.warnings] }
}

/** Of what reaches the host, that which completion would put there by itself: a user who repeats it has taken nothing. */
function againstOwn(machine: VirtualMachine, reaching: readonly Cause[], options: CompleteOptions): ReadonlySet<Cause> {
  if (reaching.length === 0) return new Set()
  const claims: Origins = new Map(reaching.map(({ field }) => [field, { by: 'default', rule: reach.id }]))
  const bare = withoutClaims(machine, claims)
  const own = [...everKnown(machine.spec, options)].map((one) =>
    leavesOf({ ...machine, spec: fill(bare, one, options).spec }),
  )
  return new Set(
    reaching.filter(({ field, value }) => value !== undefined && own.some((values) => values.get(field) === value)),
  )
}

/** Scalars and empty objects and lists of all that completion may fill, in the order in which they stand. */
function leavesOf({ metadata: { labels = {}, annotations = {} }, spec }: VirtualMachine): ReadonlyMap<string, unknown> {
  const leaves = new Map<string, unknown>()
  const visit = (value: unknown, path: string): void => {
    if (typeof value !== 'object' || value === null || Object.keys(value).length === 0) leaves.set(path, value)
    else if (Array.isArray(value)) for (const [index, item] of value.entries()) visit(item, joinPath(path, index))
    else for (const [key, member] of Object.entries(value)) visit(member, joinPath(path, key))
  }
  visit(labels, 'metadata.labels')
  visit(annotations, 'metadata.annotations')
  visit(spec, 'spec')
  return leaves
}

/** What was drawn stays: drawn again, for another request, it would be another. */
const drawn: readonly string[] = [uuid.name, macAddress.name, virtualPort.name]

/** Where anything is drawn: of any other place nobody is believed that it was. */
const drawnPaths = /^spec\.domain\.(?:uuid|devices\.interfaces\[\d+\]\.mac\.address)$/

const isDrawn = (origin: Origin): boolean => origin.by === 'default' && drawn.includes(origin.rule)

const withoutDrawn = (origins: Origins): Origins => new Map([...origins].filter(([, origin]) => !isDrawn(origin)))

function annotate(machine: VirtualMachine, provenance: Attribution): VirtualMachine {
  const { text } = encodeProvenance(provenance, machine)
  const annotations = { ...machine.metadata.annotations, [completedByAnnotation]: text }
  return { ...machine, metadata: { ...machine.metadata, annotations } }
}
