import type { Cause, Origin } from '../api/cause.ts'
import type { VirtualMachine } from '../api/virtual-machine.ts'
import { shorten } from '../api/shorten.ts'
import { sizeOf, unmetered, within, type Steps } from '../api/steps.ts'
import { firstWarnings, nameSome } from './abridge.ts'
import type { Candidates, Namespace } from './candidates.ts'
import { isInScope } from './candidates.ts'
import type { CompiledPreset, QuarantinedPreset } from './compile.ts'
import { conflictCauses } from './conflict.ts'
import { exclusiveCauses } from './exclusive.ts'
import { grantsOf, type Grants } from './granted.ts'
import { longListCauses } from './long-list.ts'
import type { Provenance } from './origins.ts'
import { participationIn } from './participation.ts'
import type { Settled } from './settle.ts'
import { settle } from './settle.ts'
import { isSelected } from './selector.ts'
import { compareText, originLabel } from './source.ts'
import type { ObjectStructure } from './structure.ts'
import { virtualMachineStructure } from './structure.ts'

export interface InjectOptions {
  readonly presets: Pick<Candidates, 'select'>
  readonly namespace: Namespace
  /** Presets that are not applied. A warning names those that select the VM. */
  readonly quarantined?: Iterable<QuarantinedPreset>
  /** The AdmissionRequest, for conditions; {} if absent. */
  readonly request?: unknown
  /** IDs of presets that the user may be exempt from; none if absent. */
  readonly exempt?: ReadonlySet<string>
  /** The structure of VMs. Tests pass a smaller one. */
  readonly structure?: ObjectStructure
  /** Counts the work; unmetered if absent. */
  readonly steps?: Steps
}

/** The result of applying presets to a VM. */
export interface Injection extends Provenance {
  /** If there are causes: the VM without the disputed fields, so that the response can include other rules' causes. */
  readonly vm: VirtualMachine
  /** Why the VM is refused; empty if it is not. */
  readonly causes: readonly Cause[]
  /** Leaves on which presets disagree, and lists that they make too long. Rules about these are not applied. */
  readonly unsettled: readonly string[]
  /** Leaves that cluster presets state, even if another preset is their origin. These may reach the host. */
  readonly grants: Grants
  readonly warnings: readonly string[]
  /** What presets in mode Audit and Warn would have changed, for the audit annotations. */
  readonly audit: readonly Notice[]
  /** Every preset that applied: those that match the VM as sent, strongest first, then late ones. */
  readonly participants: readonly Participant[]
}

export interface Participant {
  readonly preset: CompiledPreset
  /** The number of leaves that it set or removed; 0 if the VM already had all its values. */
  readonly changes: number
}

export interface Notice {
  readonly preset: CompiledPreset
  readonly fields: readonly string[]
}

/**
 * Merges the presets that select a VM into it. Pure: the same VM, presets, namespace and request give the same result,
 * in any order of presets. The arguments are not modified, and unchanged parts of the VM are the same objects.
 * Idempotent.
 */
export function inject(vm: VirtualMachine, options: InjectOptions): Injection {
  const {
    presets,
    namespace,
    request = {},
    exempt = new Set<string>(),
    structure = virtualMachineStructure(),
    steps = unmetered,
  } = options
  const apply = (given: VirtualMachine, chosen: readonly CompiledPreset[]) => {
    steps.spend(stepsOf(given, chosen))
    return settle(given, chosen, structure, steps).vm
  }
  const taking = participationIn(vm, { presets, namespace, request, exempt, apply })
  const matched = taking.matching.filter(({ mode }) => mode === 'Apply')
  const applied = [...matched, ...taking.late]
  steps.spend(taking.tested + stepsOf(vm, applied))
  const settled = settle(vm, applied, structure, steps)
  const trial = tryOut(vm, applied, taking.matching, structure)
  const { notices } = trial
  return {
    vm: settled.vm,
    origins: settled.origins,
    overridden: settled.overridden,
    removed: settled.removed,
    skipped: settled.skipped,
    // A late preset does not match the VM as the user sent it, so it grants nothing.
    grants: grantsOf({ vm, applied: matched, namespace, request, structure, granted: settled.granted, steps }),
    causes: [
      ...taking.causes,
      ...exclusiveCauses(applied),
      ...conflictCauses(settled.conflicts),
      ...longListCauses(settled.longLists),
    ],
    unsettled: settled.unsettled,
    warnings: [
      ...taking.warnings,
      ...quarantineWarnings(options.quarantined ?? [], vm, namespace),
      ...settled.warnings,
      ...overrideWarnings(settled),
      ...notices.filter(({ preset }) => preset.mode === 'Warn').flatMap(noticeWarning),
      ...trial.warnings,
    ],
    audit: notices,
    participants: participantsOf(applied, settled),
  }
}

function participantsOf(applied: readonly CompiledPreset[], { origins, removed }: Settled): Participant[] {
  const changes = new Map<Origin, number>()
  for (const paths of [origins, removed]) {
    for (const origin of paths.values()) changes.set(origin, (changes.get(origin) ?? 0) + 1)
  }
  return applied.map((preset) => ({ preset, changes: changes.get(preset.origin) ?? 0 }))
}

const quarantineWarnings = (
  quarantined: Iterable<QuarantinedPreset>,
  { metadata: { labels = {} } }: VirtualMachine,
  namespace: Namespace,
): string[] => {
  const selecting = [...quarantined].filter(
    (preset) => preset.selector !== undefined && isInScope(preset, namespace) && isSelected(preset.selector, labels),
  )
  return firstWarnings(
    selecting.map(({ id }) => id).toSorted(compareText),
    (id) => `preset "${id}" is broken and left out; see its status`,
    (count) => `${count} more presets are broken and left out`,
  )
}

const contentSizes = new WeakMap<object, number>()

function contentSize({ content }: CompiledPreset): number {
  const size = contentSizes.get(content) ?? sizeOf(content)
  contentSizes.set(content, size)
  return size
}

/** The steps to visit all values of a VM and its presets once. */
const stepsOf = ({ metadata, spec }: VirtualMachine, presets: readonly CompiledPreset[]): number =>
  presets.reduce((steps, preset) => steps + contentSize(preset), sizeOf(metadata) + sizeOf(spec))

/** Presets in mode Warn or Audit have their own limit, because they must not keep a VM from being completed. */
const trialSteps = 50_000

/** Each trial merges all presets again. */
const maxTrials = 16

/**
 * Determines what each preset in mode Warn or Audit would change, strongest first, within the limits. Cluster presets
 * and namespaced presets have separate limits, so that a namespace cannot keep cluster presets from being tried.
 */
function tryOut(
  vm: VirtualMachine,
  applied: readonly CompiledPreset[],
  matching: readonly CompiledPreset[],
  structure: ObjectStructure,
): { readonly notices: readonly Notice[]; readonly warnings: readonly string[] } {
  const presets = matching.filter(({ mode }) => mode !== 'Apply')
  const scopes = [
    presets.filter(({ namespace }) => namespace === undefined),
    presets.filter(({ namespace }) => namespace !== undefined),
  ]
  const tried = new Map<CompiledPreset, readonly string[]>()
  for (const scope of scopes) {
    const tryAll = (steps: Steps): void => {
      for (const preset of scope.slice(0, maxTrials)) {
        steps.spend(stepsOf(vm, [...applied, preset]))
        tried.set(preset, wouldChange(vm, applied, preset, structure, steps))
      }
    }
    within(trialSteps, tryAll, () => {})
  }
  const notices = presets.flatMap((preset) => {
    const fields = tried.get(preset)
    return fields === undefined ? [] : [{ preset, fields }]
  })
  return { notices, warnings: scopes.flatMap((scope) => untriedWarning(scope.filter((preset) => !tried.has(preset)))) }
}

function untriedWarning(presets: readonly CompiledPreset[]): readonly string[] {
  if (presets.length === 0) return []
  const names = presets.map(({ id }) => `"${id}"`)
  return [
    `${presets.length} presets in mode Warn or Audit match but were not tried because there are too many: ${nameSome(names)}`,
  ]
}

/** The paths that a preset would change if it applied. Each is tried alone, without others in mode Warn or Audit. */
function wouldChange(
  vm: VirtualMachine,
  applied: readonly CompiledPreset[],
  preset: CompiledPreset,
  structure: ObjectStructure,
  steps: Steps,
): readonly string[] {
  const settled = settle(vm, [...applied, preset], structure, steps)
  const changed = [...settled.origins, ...settled.removed].filter(([, origin]) => origin === preset.origin)
  return [...new Set([...changed.map(([path]) => path), ...settled.unsettled])].toSorted(compareText)
}

const noticeWarning = ({ preset, fields }: Notice): string[] =>
  fields.length === 0 ? [] : [`preset "${preset.id}" (mode Warn) would change ${nameSome(fields)}`]

/** Names the user's values that presets changed or removed, and these presets. */
function overrideWarnings({ overridden, removed, origins }: Settled): string[] {
  const changed = [...overridden].flatMap(([path, lost]) => {
    const users = lost.find((one) => one.origin.by === 'user')
    return users === undefined ? [] : [{ path, value: users.value }]
  })
  const changes = firstWarnings(
    changed,
    ({ path, value }) => {
      const origin = origins.get(path)
      const by = origin?.by === 'preset' ? `preset "${originLabel(origin)}"` : 'a preset'
      return `${by} changed ${path}, which was ${shorten(JSON.stringify(value), maxValue)}`
    },
    (count) => `presets changed ${count} more fields`,
  )
  const removals = firstWarnings(
    [...removed],
    ([path, origin]) => `preset "${originLabel(origin)}" removed ${path}`,
    (count) => `presets removed ${count} more fields`,
  )
  return [...changes, ...removals]
}

const maxValue = 40
