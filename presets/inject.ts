import type { Cause, Origin } from '../api/cause.ts'
import type { VirtualMachine } from '../api/machine.ts'
import { sizeOf, unmetered, within, type Steps } from '../api/steps.ts'
import type { Candidates, Namespace } from './candidates.ts'
import { isInScope } from './candidates.ts'
import type { CompiledPreset, QuarantinedPreset } from './compile.ts'
import { createBudget } from './condition-budget.ts'
import { conflictCauses } from './conflict.ts'
import { excludePresets } from './exclude.ts'
import { exclusiveCauses } from './exclusive.ts'
import { grantsOf, type Grants } from './granted.ts'
import { longListCauses } from './long-list.ts'
import { conditionCause, matchConditions, reviewer } from './match.ts'
import type { Provenance } from './origins.ts'
import type { Settled } from './settle.ts'
import { settle } from './settle.ts'
import { isSelected } from './selector.ts'
import { compareText } from './source.ts'
import type { ObjectStructure } from './structure.ts'
import { virtualMachineStructure } from './structure.ts'

export interface InjectOptions {
  readonly presets: Pick<Candidates, 'select'>
  readonly namespace: Namespace
  /** Presets that take no part; those that select the VM are told in a warning. */
  readonly quarantined?: Iterable<QuarantinedPreset>
  /** The AdmissionRequest, for conditions; {} where absent. */
  readonly request?: unknown
  /** Ids of presets that the user may be exempt from; nobody where absent. */
  readonly exempt?: ReadonlySet<string>
  /** How VMs are put together; tests hand in a small one. */
  readonly structure?: ObjectStructure
  /** What the work is counted with; nothing is counted where absent. */
  readonly steps?: Steps
}

/** What the presets made of a VM. */
export interface Injection extends Provenance {
  /** With causes: the VM without what they hang on, so that other rules can be asked in the same answer. */
  readonly machine: VirtualMachine
  /** Empty: the VM is well, as far as presets go. */
  readonly causes: readonly Cause[]
  /** The paths of leaves on which presets disagree: rules that hang on them have nothing to say. */
  readonly unsettled: readonly string[]
  /** Leaves that cluster presets state, whoever is credited for them: these may reach the host. */
  readonly grants: Grants
  readonly warnings: readonly string[]
  /** What presets in mode Audit and Warn would have done, for the audit annotations. */
  readonly audit: readonly Notice[]
  /** Every preset that matched, strongest first. */
  readonly participants: readonly Participant[]
}

export interface Participant {
  readonly preset: CompiledPreset
  /** Leaves that it set or removed; 0 where the VM had them all. */
  readonly changes: number
}

export interface Notice {
  readonly preset: CompiledPreset
  readonly fields: readonly string[]
}

/**
 * Puts into a VM what the presets that select it say. Pure: same VM, presets, namespace and request, same answer, in whatever order presets
 * are listed; nothing that comes in is changed, and what did not change in the VM is the very object that came in. Injecting again
 * adds nothing.
 */
export function inject(machine: VirtualMachine, options: InjectOptions): Injection {
  const {
    presets,
    namespace,
    request = {},
    exempt = new Set<string>(),
    structure = virtualMachineStructure(),
    steps = unmetered,
  } = options
  const selected = presets.select(machine.metadata.labels ?? {}, namespace).toSorted(comparePresets)
  const { remaining, warnings: exclusionWarnings } = excludePresets(machine.metadata.annotations, selected, exempt)
  const matched = decideConditions(remaining, reviewer(machine, namespace, request))
  const applied = matched.matching.filter(({ mode }) => mode === 'Apply')
  steps.spend(selected.length + stepsOf(machine, applied))
  const settled = settle(machine, applied, structure, steps)
  const trial = tryOut(machine, applied, matched.matching, structure)
  const { notices } = trial
  return {
    machine: settled.machine,
    origins: settled.origins,
    overridden: settled.overridden,
    removed: settled.removed,
    skipped: settled.skipped,
    grants: grantsOf({ machine, applied, namespace, request, structure, granted: settled.granted, steps }),
    causes: [
      ...matched.causes,
      ...exclusiveCauses(applied),
      ...conflictCauses(settled.conflicts),
      ...longListCauses(settled.longLists),
    ],
    unsettled: settled.unsettled,
    warnings: [
      ...exclusionWarnings,
      ...quarantineWarnings(options.quarantined ?? [], machine, namespace),
      ...matched.warnings,
      ...settled.warnings,
      ...overrideWarnings(settled),
      ...notices.filter(({ preset }) => preset.mode === 'Warn').flatMap(noticeWarning),
      ...trial.warnings,
    ],
    audit: notices,
    participants: applied.map((preset) => ({ preset, changes: changesOf(settled, preset).length })),
  }
}

const comparePresets = (left: CompiledPreset, right: CompiledPreset): number =>
  right.rank - left.rank || compareText(left.id, right.id)

function decideConditions(presets: readonly CompiledPreset[], review: ReturnType<typeof reviewer>) {
  const budget = createBudget()
  const matching: CompiledPreset[] = []
  const causes: Cause[] = []
  const warnings: string[] = []
  for (const preset of presets) {
    const match = matchConditions(preset, review, budget)
    if (match.outcome === 'matches') matching.push(preset)
    if (match.outcome !== 'failed') continue
    if (preset.strength === 'Enforce' && preset.mode === 'Apply') causes.push(conditionCause(preset, match))
    else
      warnings.push(`preset "${preset.id}" left out: condition "${match.condition}" cannot be decided: ${match.error}`)
  }
  return { matching, causes, warnings }
}

const quarantineWarnings = (
  quarantined: Iterable<QuarantinedPreset>,
  { metadata: { labels = {} } }: VirtualMachine,
  namespace: Namespace,
): string[] =>
  [...quarantined]
    .filter(
      (preset) => preset.selector !== undefined && isInScope(preset, namespace) && isSelected(preset.selector, labels),
    )
    .map(({ id }) => `preset "${id}" is broken and left out; see its status`)
    .toSorted(compareText)

const isBy = (origin: Origin, preset: CompiledPreset): boolean =>
  origin.by === 'preset' && origin.name === preset.name && origin.namespace === preset.namespace

/** Paths that a preset set or took away. */
const changesOf = ({ origins, removed }: Settled, preset: CompiledPreset): readonly string[] =>
  [...origins, ...removed].filter(([, origin]) => isBy(origin, preset)).map(([path]) => path)

const contentSizes = new WeakMap<object, number>()

function contentSize({ content }: CompiledPreset): number {
  const size = contentSizes.get(content) ?? sizeOf(content)
  contentSizes.set(content, size)
  return size
}

/** What it takes to look once at all that a VM and its presets say. */
const stepsOf = ({ metadata, spec }: VirtualMachine, presets: readonly CompiledPreset[]): number =>
  presets.reduce((steps, preset) => steps + contentSize(preset), sizeOf(metadata) + sizeOf(spec))

/** For presets in mode Warn or Audit: they must not keep a VM from being completed. */
const trialSteps = 50_000

/** Each trial merges all presets again. */
const maxTrials = 16

/**
 * What each preset in mode Warn or Audit would change, within the limits, the stronger ones first. Presets of the cluster and of the
 * namespace have their own limits: those of a namespace do not keep those of the cluster from being tried.
 */
function tryOut(
  machine: VirtualMachine,
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
        steps.spend(stepsOf(machine, [...applied, preset]))
        tried.set(preset, wouldChange(machine, applied, preset, structure, steps))
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
  const names = presets.slice(0, maxFieldsTold).map(({ id }) => `"${id}"`)
  return [
    `${presets.length} presets in mode Warn or Audit match and were not tried, there are too many: ${names.join(', ')}`,
  ]
}

/** What a preset that does not take part would change if it did. Each is tried alone: they see nothing of each other. */
function wouldChange(
  machine: VirtualMachine,
  applied: readonly CompiledPreset[],
  preset: CompiledPreset,
  structure: ObjectStructure,
  steps: Steps,
): readonly string[] {
  const settled = settle(machine, [...applied, preset], structure, steps)
  return [...new Set([...changesOf(settled, preset), ...settled.unsettled])].toSorted(compareText)
}

const maxFieldsTold = 3

const noticeWarning = ({ preset, fields }: Notice): string[] => {
  if (fields.length === 0) return []
  const rest = fields.length > maxFieldsTold ? ` and ${fields.length - maxFieldsTold} more` : ''
  return [`preset "${preset.id}" (mode Warn) would change ${fields.slice(0, maxFieldsTold).join(', ')}${rest}`]
}

/** Users are told what was taken from them, and by whom. */
function overrideWarnings({ overridden, removed, origins }: Settled): string[] {
  const changed = [...overridden].flatMap(([path, lost]) => {
    const origin = origins.get(path)
    const users = lost.find((one) => one.origin.by === 'user')
    if (users === undefined) return []
    const by = origin?.by === 'preset' ? `preset "${idOf(origin)}"` : 'a preset'
    return [`${by} changed ${path}, which was ${shorten(JSON.stringify(users.value))}`]
  })
  const gone = [...removed].map(([path, origin]) => `preset "${idOf(origin)}" removed ${path}`)
  return [...changed, ...gone].toSorted(compareText)
}

const idOf = (origin: Origin): string => {
  if (origin.by !== 'preset') return origin.by
  return origin.namespace === undefined ? origin.name : `${origin.namespace}/${origin.name}`
}

const maxValue = 40
const shorten = (text: string): string => (text.length > maxValue ? `${text.slice(0, maxValue)}…` : text)
