import type { Capabilities } from '../api/capabilities.ts'
import type { Cause, Origin } from '../api/cause.ts'
import { capCauses, isCapped } from '../api/causes.ts'
import { completedByAnnotation, type VirtualMachineSpec, type VirtualMachine } from '../api/virtual-machine.ts'
import type { ObjectMeta } from '../api/object.ts'
import { imageVolumesOf } from '../api/volume.ts'
import { canonicalSpelling } from '../api/domain/canonical.ts'
import { deviceAround, hostPaths, sourceAround } from '../presets/grant.ts'
import { maxSteps, maxStepsAgain, sizeOf, unmetered, within, type Steps } from '../api/steps.ts'
import { fillAttachedVolumes } from './attached-volume.ts'
import { inject, type InjectOptions, type Injection } from '../presets/inject.ts'
import type { LostValue } from '../presets/origins.ts'
import { canRemove } from '../presets/remove-path.ts'
import { lazy } from '../presets/lazy.ts'
import { byUser } from '../presets/source.ts'
import { parentPath, relatedTo } from '../api/path.ts'
import { filledObjects, inOrderOf, reproduce } from './reproduce.ts'
import type { Added } from './defaults/apply.ts'
import { fillDefaults } from './defaults/defaults.ts'
import { domainName, mayBeDrawn } from './defaults/identity.ts'
import type { Context, Entropy } from './defaults/rule.ts'
import { enforcedValues } from './enforced.ts'
import { defaultsAlone, draftedGrants, injectedGrants, statedGrants, type Grants } from './grants.ts'
import { labelsSizeCauses } from './labels-size.ts'
import { lazyMap } from './lazy-map.ts'
import { type Checked, nameNodes } from './node-causes.ts'
import { tooMuchWork } from './too-much-work.ts'
import type { NodeCapabilities, Provided } from './nodes.ts'
import { objectSizeCauses } from './object-size.ts'
import { allOrigins, originOf, originWithin, ruleAt, valueAtPath } from './origins.ts'
import {
  decodeProvenance,
  encodeProvenance,
  type Attribution,
  type DecodedProvenance,
  type Origins,
  type Provenance,
} from './provenance.ts'
import { imageFormat } from './rules/image-format.ts'
import { reach } from './rules/reach.ts'
import { checkRules } from './rules/rules.ts'

export interface CompleteOptions extends InjectOptions {
  /**
   * The capabilities of one kind of node, or of the nodes of a cluster: then those of the nodes on which the VM with
   * its presets can be scheduled are used.
   */
  readonly capabilities: Capabilities | NodeCapabilities
  readonly entropy: Entropy
  /** Allows the user to set host-reaching fields. To experiment offline; never at admission. */
  readonly allowHostReach?: boolean
  /** Skips all rules, including reach, and returns the result whether it is valid or not. Offline only. */
  readonly skipRules?: boolean
  /**
   * Whether the domain comes from libvirt's XML. It is then completed as a stored domain, to which libvirt adds less
   * than to a new one (no USB ports, no versioned machine type). Offline only.
   */
  readonly isStored?: boolean
  /**
   * The paths of invalid values that were removed from the VM (`validPartOf`). Causes that depend on them are dropped.
   */
  readonly without?: readonly string[]
  /** Skips the annotation, a sixth of the work, if the VM is not stored. */
  readonly skipAnnotation?: boolean
  /**
   * Whether another VM in the cluster has a MAC address (lower case, with colons). If absent, only those of the VM are
   * known.
   */
  readonly isMacTaken?: (address: string) => boolean
  /** Called after each phase, for measurements; completion itself reads no clock. */
  readonly onPhase?: (phase: Phase) => void
}

export type Phase = 'claim' | 'presets' | 'defaults' | 'rules' | 'provenance'

/** Audited presets and warnings, reported for every outcome. */
type Report = Pick<Injection, 'audit' | 'participants' | 'warnings'>

export interface Completed extends Report, Provenance {
  readonly outcome: 'completed'
  /** Complete and valid, with its provenance in the annotation. */
  readonly vm: VirtualMachine
}

export interface Refused extends Report {
  readonly outcome: 'refused'
  /** All causes. */
  readonly causes: readonly Cause[]
}

/**
 * Completes a VM: presets by layer, then what libvirt itself would fill in, then the rules for the whole. Pure: the
 * same arguments give the same result, none of them is modified, and completing a complete VM changes nothing.
 *
 * A VM with a provenance claims that it was completed before. The claim proves nothing: completion searches for a VM
 * without the claimed leaves that gives the same VM, and completes that one (docs/decisions/reach.md).
 * @param vm a VM that conforms to the schema (`parseVirtualMachine`)
 */
export function complete(vm: VirtualMachine, options: CompleteOptions): Completed | Refused {
  const isAgain = vm.metadata.annotations?.[completedByAnnotation] !== undefined
  const limit = isAgain ? maxStepsAgain : maxSteps
  const nothing = { audit: [], participants: [], warnings: [] }
  const outcome = within<Completed | Refused>(
    limit,
    (steps) => completeClaimed(vm, { ...options, steps }),
    () => ({ outcome: 'refused', causes: [tooMuchWork(vm, options, limit)], ...nothing }),
  )
  return startable(outcome, options)
}

/**
 * The controller knows no exemptions, because a stored VM can only claim one. It would never start a VM that gets
 * something of the host only with an exemption, so that is refused.
 */
function startable(outcome: Completed | Refused, options: CompleteOptions): Completed | Refused {
  const { exempt = new Set(), onPhase: _onPhase, ...others } = options
  if (outcome.outcome === 'refused' || exempt.size === 0 || others.allowHostReach || others.skipRules) return outcome
  const causes = ungrantedReach(outcome.vm, others)
  if (causes.length === 0) return outcome
  const { audit, participants, warnings } = outcome
  const message = 'reaches the host, and is not granted to a VM that is exempt from a preset which changes its device'
  const suggestion = 'ask an operator to exclude the VM by the selector or a condition of that preset'
  return {
    outcome: 'refused',
    causes: causes.map((cause) => ({ ...cause, message, suggestion })),
    audit,
    participants,
    warnings,
  }
}

function completeClaimed(vm: VirtualMachine, options: CompleteOptions): Completed | Refused {
  const { bare, claim } = takeClaim(vm)
  if (claim === undefined) return finish(draft(bare, options), undefined, options)
  const reproduced = reproduceDraft(bare, claim, options)
  options.onPhase?.('claim')
  return finish(reproduced, displayed(bare, claim, reproduced, options.steps ?? unmetered), options)
}

/**
 * Causes for host-reaching values of a stored VM that are not granted. The VM is checked as stored, not completed
 * again. Empty for every VM that `complete` returned, as long as presets and nodes do not change.
 * @param vm a VM that conforms to the schema (`parseVirtualMachine`)
 */
export function ungrantedReach(vm: VirtualMachine, options: CompleteOptions): readonly Cause[] {
  return within(
    maxStepsAgain,
    (steps) => reachOf(vm, { ...options, steps }),
    () => [tooMuchWork(vm, options, maxStepsAgain)],
  )
}

function reachOf(vm: VirtualMachine, options: CompleteOptions): readonly Cause[] {
  if (needsNoGrant(vm, options)) return []
  const { bare, claim } = takeClaim(vm)
  const made = claim === undefined ? draft(bare, options) : reproduceDraft(bare, claim, options)
  const reaching = (grants: Grants) => {
    const { causes } = check(bare, made, made.injection.origins, grants, options)
    // If some causes were only counted, they might be about reach.
    return isCapped(causes) ? causes : causes.filter(({ rule }) => rule === reach.id || rule === imageFormat.id)
  }
  // Either all values are granted as drafted or all as stated: combining halves of two devices would make a third.
  return reaching(draftedGrants(bare, made.vm, made.injection)).length === 0
    ? []
    : reaching(statedGrants(bare, made.injection))
}

/**
 * In values. Completion visits each of them at least twice, so a larger VM was not admitted: it is checked in full, and
 * refused if that is too much work.
 */
const mostUndrafted = maxSteps / 2

/**
 * Nearly every VM reaches the host only by an emulator that defaults fill in. Whatever presets grant, nothing of it is
 * ungranted, so it need not be drafted, which is most of the work.
 */
function needsNoGrant({ spec }: VirtualMachine, options: CompleteOptions): boolean {
  if (sizeOf(spec) > mostUndrafted) return false
  const domain = canonicalSpelling(spec.domain)
  const isEmulator = (path: string): boolean =>
    path === 'spec.domain.devices.emulator' &&
    [...everKnown(spec, options)].some(({ emulator }) => emulator === domain.devices?.emulator)
  return hostPaths({ ...spec, domain }).every(isEmulator)
}

function takeClaim(vm: VirtualMachine): {
  readonly bare: VirtualMachine
  readonly claim: DecodedProvenance | undefined
} {
  const { [completedByAnnotation]: text, ...annotations } = vm.metadata.annotations ?? {}
  if (text === undefined) return { bare: vm, claim: undefined }
  return { bare: { ...vm, metadata: { ...vm.metadata, annotations } }, claim: decodeProvenance(text) }
}

/** A VM with its presets and defaults, before the rules. */
interface Draft {
  readonly vm: VirtualMachine
  /** Without presets and defaults. */
  readonly sent: VirtualMachine
  readonly injection: Injection
  readonly provided: Provided
  readonly added: Added
}

function draft(vm: VirtualMachine, options: CompleteOptions): Draft {
  const injection = inject(vm, options)
  options.onPhase?.('presets')
  const provided = providedFor(injection.vm.spec, options)
  const made = withDefaults(vm, injection, provided, provided.capabilities, options)
  options.onPhase?.('defaults')
  return made
}

function withDefaults(
  sent: VirtualMachine,
  injection: Injection,
  provided: Provided,
  capabilities: Capabilities,
  options: CompleteOptions,
): Draft {
  const { spec, added } = fill(injection.vm, capabilities, options)
  return { vm: { ...injection.vm, spec }, sent, injection, provided, added }
}

function reproduceDraft(vm: VirtualMachine, claim: DecodedProvenance, given: CompleteOptions): Draft {
  const { name, uuid, devices: { interfaces = [] } = {} } = vm.spec.domain
  // Another address is the user's, whatever the claim says, so conditions see it.
  const macs = interfaces.map(({ mac }) => (mayBeDrawn(mac?.address) ? mac?.address : undefined))
  const previous = { name, uuid, macs }
  // The whole search counts as one phase.
  const { onPhase: _onPhase, ...rest } = given
  const options = { ...rest, entropy: { ...given.entropy, previous } }
  return reproduce(vm, withForeignName(vm, claim), function* (input) {
    const first = draft(input, options)
    yield first
    const { injection, provided } = first
    const others = everKnown(injection.vm.spec, options)
    others.delete(provided.capabilities)
    for (const one of others) yield withDefaults(input, injection, provided, one, options)
  })
}

/**
 * The claim, in which a name that the VM would not give to its domain is the user's: that of a VM of which this one is
 * a copy, for example. Other values follow from the name, such as the path of the variable store.
 */
function withForeignName({ metadata, spec: { domain } }: VirtualMachine, claim: DecodedProvenance): DecodedProvenance {
  if (domain.name === domainName(metadata, domain.uuid, domain.name)) return claim
  return { ...claim, origins: new Map([...claim.origins, ['spec.domain.name', byUser]]) }
}

/**
 * The capabilities of nodes for which a VM may have been completed, those that apply now first. A VM does not change
 * when nodes come or go, and a default that was right at the time is not the user's value.
 */
const everKnown = (spec: VirtualMachineSpec, options: CompleteOptions): Set<Capabilities> =>
  new Set([
    providedFor(spec, options).capabilities,
    ...('known' in options.capabilities ? options.capabilities.known : []),
  ])

/** The capabilities of the nodes on which a VM with this spec, presets included, can be scheduled. */
export const providedFor = (
  spec: VirtualMachineSpec,
  { capabilities }: Pick<CompleteOptions, 'capabilities'>,
): Provided =>
  'providedFor' in capabilities ? capabilities.providedFor(spec) : { capabilities, groups: [], outliers: [] }

/** A completed VM as it is stored and shown. */
type Shown = Pick<Attribution, 'origins' | 'overridden' | 'removed' | 'shortened' | 'added'> & {
  readonly vm: VirtualMachine
}

function finish(made: Draft, shown: Shown | undefined, options: CompleteOptions): Completed | Refused {
  const { injection, added } = made
  const { audit, participants, skipped } = injection
  const { vm, ...provenance } = shown ?? { ...injection, vm: made.vm, added }
  const checked = check(made.vm, made, provenance.origins, injectedGrants(injection), options)
  options.onPhase?.('rules')
  const isLeftOut = relatedTo(options.without ?? [])
  // A leaf on which presets conflict is missing: causes about it, or about values above or below it, would be
  // misleading.
  const isDisputed = relatedTo(injection.unsettled)
  const found = [
    ...injection.causes.filter(({ field }) => !isLeftOut(field)),
    ...checked.causes.filter(({ field }) => !isDisputed(field) && !isLeftOut(field)),
  ]
  const causes = capCauses(found, 'spec')
  const report = { audit, participants, warnings: [...injection.warnings, ...checked.warnings] }
  if (causes.length > 0) return { outcome: 'refused', causes, ...report }

  const { overridden, removed } = provenance
  const { enforced, warnings: unprotected } = enforcedValues(vm, participants, removed, options.steps ?? unmetered)
  const filled = filledObjects(made.sent, made.vm, injection.shortened)
  const annotated = options.skipAnnotation === true ? vm : annotate(vm, { ...provenance, skipped, enforced, filled })
  const oversize = [...objectSizeCauses(annotated), ...labelsSizeCauses(vm.metadata.labels)]
  if (oversize.length > 0) return { outcome: 'refused', causes: oversize, ...report }
  options.onPhase?.('provenance')
  // Most callers do not read the origins.
  const origins = lazyMap(() => allOrigins(provenance.origins, added, made.vm.spec.domain))
  return {
    outcome: 'completed',
    vm: annotated,
    origins,
    overridden,
    removed,
    skipped,
    ...report,
    warnings: [...report.warnings, ...unprotected],
  }
}

/**
 * A VM that was completed again, as it was shown before: in the same order, and with the values that presets removed or
 * overrode, which the VM itself no longer shows. Only for display. A claim is shown only if the preset that it names
 * takes part and does that, or, for a value of another branch of a union, enforces or removes what is beside it.
 */
function displayed(
  sent: VirtualMachine,
  claim: DecodedProvenance,
  { vm, injection, added }: Draft,
  { spend }: Steps,
): Shown {
  const { origins, overridden, removed, shortened, participants } = injection
  const presets = new Map(participants.map(({ preset }) => [originKey(preset.origin), preset]))
  const presetOf = (origin: Origin) => presets.get(originKey(origin))
  const hasRemoved = ([path, origin]: [string, Origin]): boolean => {
    const { removes = [] } = presetOf(origin) ?? {}
    spend(Math.ceil(removes.length / comparisonsPerStep))
    return canRemove(removes, path)
  }
  const isUnknown = ([path, lost]: [string, readonly LostValue[]]): boolean =>
    presetOf(origins.get(path) ?? byUser)?.strength === 'Enforce' &&
    lost.some(({ origin, value }) => origin.by === 'user' && value === undefined)
  const isUsers = ({ origin }: LostValue): boolean => origin.by === 'user'
  const withUnknown = ([path]: [string, unknown]): [string, readonly LostValue[]] => {
    const lost = overridden.get(path) ?? []
    return [path, lost.some(isUsers) ? lost : [...lost, { origin: byUser, value: undefined }]]
  }
  const isEnforced = ([, origin]: [string, Origin]): boolean => presetOf(origin)?.strength === 'Enforce'
  const allRemoved = new Map([...[...claim.removed].filter(hasRemoved), ...removed])
  const besidePresets = new Set([...[...origins].filter(isEnforced), ...allRemoved].map(([path]) => parentPath(path)))
  const isOfLostBranch = ([path, lost]: [string, readonly LostValue[]]): boolean =>
    besidePresets.has(parentPath(path)) && valueAtPath(vm, path) === undefined && lost.every(isUsers)
  return {
    // The same values in another order.
    vm: inOrderOf(vm, sent) as VirtualMachine,
    origins: allOrigins(origins, added, vm.spec.domain),
    overridden: new Map([
      ...[...claim.overridden].filter(isOfLostBranch),
      ...overridden,
      ...[...claim.overridden].filter(isUnknown).map(withUnknown),
    ]),
    removed: allRemoved,
    // Only presets of strength Enforce remove items. What a claim says about them allows its user to send these again,
    // which changes nothing. Of a copy that was changed, what is missing now counts.
    shortened: participants.some(({ preset }) => preset.strength === 'Enforce')
      ? new Map([...claim.shortened, ...shortened])
      : shortened,
  }
}

/** Of a path with one that a preset removes. */
const comparisonsPerStep = 16

const originKey = (origin: Origin): string =>
  JSON.stringify(origin.by === 'preset' ? [origin.namespace, origin.name, origin.revision] : origin)

function fill(
  { metadata, spec }: VirtualMachine,
  capabilities: Capabilities,
  options: CompleteOptions,
): { spec: VirtualMachineSpec; added: Added } {
  const { steps = unmetered } = options
  steps.spend(sizeOf(spec.domain))
  const { domain, added } = fillDefaults(spec.domain, contextOf(metadata, spec, capabilities, options))
  return { spec: fillAttachedVolumes(added.size === 0 ? spec : { ...spec, domain }), added }
}

/** The context of default rules, besides the domain. */
export function contextOf(
  { name, generateName }: ObjectMeta,
  { ports = [], taps = [], volumes }: Pick<VirtualMachineSpec, 'ports' | 'taps' | 'volumes'>,
  capabilities: Capabilities,
  { entropy, namespace, isStored = false, isMacTaken }: CompleteOptions,
): Context {
  return {
    capabilities,
    entropy,
    namespace: namespace.name,
    isNew: !isStored,
    isOurs: !isStored,
    ports,
    taps,
    ...(volumes === undefined ? {} : { imageVolumes: imageVolumesOf(volumes) }),
    ...(name === undefined ? {} : { name }),
    ...(generateName === undefined ? {} : { generateName }),
    ...(isMacTaken === undefined ? {} : { isMacTaken }),
  }
}

/** The rules find the same on every kind of node. */
function oncePerPath(originOf: (path: string) => Origin): (path: string) => Origin {
  const known = new Map<string, Origin>()
  return (path) => {
    const origin = known.get(path) ?? originOf(path)
    known.set(path, origin)
    return origin
  }
}

/** The causes and warnings of the rules for the drafted VM, or for a stored VM for which the draft was created. */
function check(vm: VirtualMachine, made: Draft, origins: Origins, grants: Grants, options: CompleteOptions): Checked {
  if (options.skipRules) return { causes: [], warnings: [] }
  const { injection, added, provided } = made
  const { allowHostReach = false, without = [], isMacTaken, steps = unmetered } = options
  const { spec } = vm
  steps.spend(sizeOf(spec))
  const leafOrigin = (path: string): Origin => {
    const rule = ruleAt(added, made.vm, path)
    return rule === undefined ? originOf(origins, path) : { by: 'default', rule }
  }
  const context = {
    // The origin is that of the value before defaults, because defaults may have filled in all of its members.
    originOf: oncePerPath((path) =>
      originWithin(valueAtPath(injection.vm, path) ?? valueAtPath(vm, path), path, leafOrigin),
    ),
    ...(allowHostReach ? { isGranted: () => true } : grants),
    isEnforced: (path: string) =>
      injection.participants.some(
        ({ preset }) => preset.strength === 'Enforce' && valueAtPath(preset.content, path) !== undefined,
      ),
    without,
    isInPod: options.isStored !== true,
    ...(isMacTaken === undefined ? {} : { isMacTaken }),
  }
  const checked = checkRules(spec, { ...context, capabilities: provided.capabilities })
  const reaching = checked.causes.filter(({ rule }) => rule === reach.id).map(({ field }) => field)
  const fillings = (bare: VirtualMachine): readonly VirtualMachine[] =>
    [...everKnown(spec, options)].map((one) => ({ ...bare, spec: fill(bare, one, options).spec }))
  const isDefault = defaultsAlone(vm, reaching, grants, fillings)
  const reachingHost = lazy(() => new Set(hostPaths(spec)))
  // Of a source that reaches the host, and of its device, defaults may complete the rest.
  const isBeside = (field: string) =>
    (sourceAround(field) ?? deviceAround(field)) !== undefined && !reachingHost().has(field)
  const isFilled = (field: string) => (!grants.isCut(field) || isBeside(field)) && isDefault(field)
  const causes = checked.causes.filter(({ rule, field }) => rule !== reach.id || !isFilled(field))
  const named = nameNodes(causes, provided, spec, checked.causesOn)
  return { causes: named.causes, warnings: [...checked.warnings, ...named.warnings] }
}

function annotate(vm: VirtualMachine, provenance: Attribution): VirtualMachine {
  const { text } = encodeProvenance({ ...provenance, domain: vm.spec.domain }, vm)
  const annotations = { ...vm.metadata.annotations, [completedByAnnotation]: text }
  return { ...vm, metadata: { ...vm.metadata, annotations } }
}
