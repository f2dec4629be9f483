import type { Cause, Origin } from '../api/cause.ts'
import type { VirtualMachine } from '../api/virtual-machine.ts'
import { shorten } from '../api/shorten.ts'
import { sizeOf, unmetered, within, type Steps } from '../api/steps.ts'
import { firstWarnings, nameSome } from './abridge.ts'
import type { Candidates, Namespace } from './candidates.ts'
import { isInScope } from './candidates.ts'
import type { CompiledPreset, QuarantinedPreset } from './compile.ts'
import { conflictCauses } from './conflict.ts'
import { digestOf } from './digest.ts'
import { exclusiveCauses } from './exclusive.ts'
import { grantsOf, type Grants } from './granted.ts'
import { virtualMachineKind, type Kind, type Subject } from './kind.ts'
import { longListCauses } from './long-list.ts'
import type { Provenance, Shortened } from './origins.ts'
import { ownedLabels, ownedWarnings } from './owned-labels.ts'
import { participationIn } from './participation.ts'
import type { Settled } from './settle.ts'
import { settle } from './settle.ts'
import { isSelected } from './selector.ts'
import { compareText, filledIn, originLabel } from './source.ts'
import type { ObjectStructure } from './structure.ts'

export interface InjectOptions {
  readonly presets: Pick<Candidates, 'select'>
  readonly namespace: Namespace
  /** Presets that are not applied. A warning names those that select the VM. */
  readonly quarantined?: Iterable<QuarantinedPreset>
  /** The AdmissionRequest, for conditions; {} if absent. */
  readonly request?: unknown
  /** IDs of presets that the user may be exempt from; none if absent. */
  readonly exempt?: ReadonlySet<string>
  /** The part of the object that its user wrote. Presets of strength Default set the rest. If absent: all of it. */
  readonly written?: Subject
  /** Counts the work; unmetered if absent. */
  readonly steps?: Steps
}

/** The result of applying presets to an object. */
export interface Injected extends Provenance {
  /** If there are causes: without the disputed fields, so that the response can include other rules' causes. */
  readonly object: Subject
  /** Lists from which items of the user are missing, by path. */
  readonly shortened: ReadonlyMap<string, Shortened>
  /** Why the object is refused; empty if it is not. */
  readonly causes: readonly Cause[]
  /** Leaves on which presets disagree, and lists that they make too long. Rules about these are not applied. */
  readonly unsettled: readonly string[]
  /** Leaves that cluster presets state, even if another preset is their origin. These may reach the host. */
  readonly grants: Grants
  /**
   * Lists with an item of which presets of the namespace removed a part, and items with a source that lost one, or that
   * source if it is in no list, by path.
   */
  readonly cut: ReadonlySet<string>
  readonly warnings: readonly string[]
  /** What presets in mode Audit and Warn would have changed, for the audit annotations. */
  readonly audit: readonly Notice[]
  /** Every preset that applied: those that match the VM as sent, strongest first, then late ones. */
  readonly participants: readonly Participant[]
}

/** The result of applying presets to a VM. */
export interface Injection extends Omit<Injected, 'object'> {
  readonly vm: VirtualMachine
}

export interface Participant {
  readonly preset: CompiledPreset
  /** The number of leaves that it set or removed; 0 if the object already had all its values. */
  readonly changes: number
}

export interface Notice {
  readonly preset: CompiledPreset
  readonly fields: readonly string[]
}

/**
 * Merges the presets that select a VM into it.
 * @param options `structure` is that of VMs; tests pass a smaller one
 */
export function inject(
  vm: VirtualMachine,
  options: InjectOptions & { readonly structure?: ObjectStructure },
): Injection {
  const { object, ...rest } = injectInto(vm, virtualMachineKind(options.structure), options)
  // The structure is that of a VM.
  return { vm: object as VirtualMachine, ...rest }
}

/**
 * Merges the presets that select an object into it. Pure: the same object, presets, namespace and request give the same
 * result, in any order of presets. The arguments are not modified, and unchanged parts are the same objects.
 * Idempotent.
 */
export function injectInto(received: Subject, of: Kind, options: InjectOptions): Injected {
  const { presets, namespace, request = {}, exempt = new Set<string>(), written, steps = unmetered } = options
  const object = written ?? received
  const kept = of.keepsOwnedLabels === true ? ownedLabels(received) : undefined
  const given = kept === undefined ? of : { ...of, kept }
  const kind = written === undefined ? given : { ...given, below: received }
  const apply = (one: Subject, chosen: readonly CompiledPreset[]) => {
    steps.spend(stepsOf(one, chosen))
    return one === received ? settle(object, chosen, kind, steps).object : settle(one, chosen, given, steps).object
  }
  // Selectors and conditions see what was filled in, too.
  const taking = participationIn(received, { presets, namespace, request, exempt, kind, apply })
  const matched = taking.matching.filter(({ mode }) => mode === 'Apply')
  const applied = [...matched, ...taking.late]
  steps.spend(taking.tested + stepsOf(received, applied))
  const settled = settle(object, applied, kind, steps)
  const trial = tryOut(object, applied, taking.matching, kind)
  const { notices } = trial
  return {
    object: settled.object,
    origins: withoutFilledIn(settled.origins),
    overridden: settled.overridden,
    removed: settled.removed,
    shortened: shortenedOf(settled, steps),
    cut: settled.cut,
    skipped: settled.skipped,
    // A late preset does not match the object as the user sent it, so it grants nothing.
    grants: grantsOf({ object, applied: matched, namespace, request, kind, settled, steps }),
    causes: [
      ...taking.causes,
      ...exclusiveCauses(applied),
      ...conflictCauses(settled.conflicts, kind.noun),
      ...longListCauses(settled.longLists),
    ],
    unsettled: settled.unsettled,
    warnings: [
      ...taking.warnings,
      ...quarantineWarnings(options.quarantined ?? [], object, namespace),
      ...settled.warnings,
      ...overrideWarnings(settled),
      ...ownedWarnings(applied, kept),
      ...notices.filter(({ preset }) => preset.mode === 'Warn').flatMap(noticeWarning),
      ...trial.warnings,
    ],
    audit: notices,
    participants: participantsOf(applied, settled),
  }
}

const shortenedOf = ({ shortened }: Settled, steps: Steps): ReadonlyMap<string, Shortened> =>
  new Map(
    [...shortened].map(([path, { user, missing }]) => {
      const digests = missing.map((index) => {
        steps.spend(sizeOf(user[index]))
        return [index, digestOf(user[index])] as const
      })
      return [path, { length: user.length, missing: new Map(digests) }]
    }),
  )

/** What was filled in is shown as the user's, because another webhook could have set it. */
const withoutFilledIn = (origins: Provenance['origins']): Provenance['origins'] =>
  new Map([...origins].filter(([, origin]) => origin !== filledIn))

function participantsOf(applied: readonly CompiledPreset[], { origins, removed }: Settled): Participant[] {
  const changes = new Map<Origin, number>()
  for (const paths of [origins, removed]) {
    for (const origin of paths.values()) changes.set(origin, (changes.get(origin) ?? 0) + 1)
  }
  return applied.map((preset) => ({ preset, changes: changes.get(preset.origin) ?? 0 }))
}

const quarantineWarnings = (
  quarantined: Iterable<QuarantinedPreset>,
  { metadata: { labels = {} } }: Subject,
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

/** The steps to visit all values of an object and its presets once. */
function stepsOf(object: Subject, presets: readonly CompiledPreset[]): number {
  let steps = 0
  for (const [key, value] of Object.entries(object)) if (!unmerged.has(key)) steps += sizeOf(value)
  for (const preset of presets) steps += contentSize(preset)
  return steps
}

/** What no preset can set. */
const unmerged: ReadonlySet<string> = new Set(['apiVersion', 'kind', 'status'])

/** Presets in mode Warn or Audit have their own limit, because they must not keep an object from being completed. */
const trialSteps = 50_000

/** Each trial merges all presets again. */
const maxTrials = 16

/**
 * Determines what each preset in mode Warn or Audit would change, strongest first, within the limits. Cluster presets
 * and namespaced presets have separate limits, so that a namespace cannot keep cluster presets from being tried.
 */
function tryOut(
  object: Subject,
  applied: readonly CompiledPreset[],
  matching: readonly CompiledPreset[],
  kind: Kind,
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
        steps.spend(stepsOf(object, [...applied, preset]))
        tried.set(preset, wouldChange(object, applied, preset, kind, steps))
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
  object: Subject,
  applied: readonly CompiledPreset[],
  preset: CompiledPreset,
  kind: Kind,
  steps: Steps,
): readonly string[] {
  const settled = settle(object, [...applied, preset], kind, steps)
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
