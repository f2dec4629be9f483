import type { Cause } from '../api/cause.ts'
import type { Completed } from '../completion/complete.ts'
import { launcherResources } from '../api/launcher-resources.ts'
import type { VirtualMachine } from '../api/machine.ts'
import type { Preset } from '../api/preset.ts'
import { exemptionsToAuthorize } from '../presets/exclude.ts'
import { checkPreset, plainDomain } from '../presets/check.ts'
import { compilePreset } from '../presets/compile.ts'
import { needsGrant } from '../presets/grant.ts'
import { findOverlaps, overlapWarning } from '../presets/overlap.ts'
import { virtualMachineStructure } from '../presets/structure.ts'
import { parsePreset } from '../api/preset.ts'
import { completedByAnnotation, excludePresetsAnnotation } from '../api/machine.ts'
import { isRecord } from '../api/schema.ts'
import { originOf } from '../completion/origins.ts'
import { decodeProvenance } from '../completion/provenance.ts'
import { neverValid } from '../completion/rules/preset.ts'
import { completeWith } from '../inventory/complete.ts'
import { systemClock } from '../runtime/clock.ts'
import type { Clock } from '../runtime/clock.ts'
import { keyOf } from '../runtime/resource.ts'
import { auditAnnotations } from './audit.ts'
import { budgetWarnings } from './budget.ts'
import type { AdmissionCaches } from './caches.ts'
import { unmeasured } from './metrics.ts'
import type { CompletionMetrics, Phase } from './metrics.ts'
import { patchBetween, writePatch, type Patch } from './patch.ts'
import { noPermissions } from './permission.ts'
import type { MayAccess, Permissions } from './permission.ts'
import { createRecall } from './recall.ts'
import type { Review } from './review.ts'
import { isSameValue } from './update.ts'
import type { Remembered } from './update.ts'

/** What admission asks of completion and the presets; holds the caches, so that the verdicts stay pure. */
export interface Engine {
  /**
   * What the user of a review may do beyond the ordinary, asked of the API server where the review needs it; comes when every preset
   * that was approved before is known. Undefined where there is nothing to ask or to wait for, as is usual.
   */
  permissions(review: Review): Promise<Permissions> | undefined
  /** The whole VM, with its provenance in the annotation. Same review, same answer. */
  complete(
    machine: VirtualMachine,
    review: Review,
    permissions: Permissions,
    /** Paths of what is left out of the VM, since it was wrong by itself. */
    without?: readonly string[],
  ): Told & ({ readonly completed: Completed } | { readonly causes: readonly Cause[] })
  /** What makes `after` of `before`. */
  patch(before: { readonly [key: string]: unknown }, after: { readonly [key: string]: unknown }, review: Review): Patch
  /** Whether this is, to the letter, what `complete` gave a moment ago. */
  isOwn(object: unknown, review: Review): boolean
  /** How the spec of a stored VM came about, by its provenance. */
  remember(machine: VirtualMachine): Remembered
  /** A preset is about to be stored: reviews from now on have to know it. */
  expect(review: Review): void
  /** What is wrong with a preset beyond its shape. */
  checkPreset(
    preset: Preset,
    permissions: Permissions,
  ): { readonly causes: readonly Cause[]; readonly warnings: readonly string[] }
}

interface Told {
  readonly warnings: readonly string[]
  /** For the API server's audit log. */
  readonly audit?: Readonly<Record<string, string>>
}

/** Older than this, the caches may know so little of the presets that users are told. */
const staleMs = 120_000

export function createEngine(
  caches: AdmissionCaches,
  mayAccess: MayAccess,
  clock: Clock = systemClock,
  metrics: CompletionMetrics = unmeasured,
): Engine {
  const recall = createRecall(clock)
  const warningsOf = (completed: Completed, { namespace }: Review): readonly string[] => {
    const { domain, priorityClassName } = completed.machine.spec
    const budget = budgetWarnings(caches.budget(namespace), () => launcherResources(domain), priorityClassName)
    return [...completed.warnings, ...staleWarnings(caches.ageMs()), ...budget]
  }
  return {
    permissions(review) {
      const arrival =
        review.kind === 'VirtualMachine' && review.operation === 'CREATE' ? caches.arrivals.wait() : undefined
      if (arrival === undefined) return askPermissions(caches, mayAccess, review)
      return arrival.then(() => askPermissions(caches, mayAccess, review) ?? noPermissions)
    },
    expect(review) {
      const { kind, name, namespace, isDryRun } = review
      if (isDryRun || name === '' || kind === 'VirtualMachine' || isSpecKept(review)) return
      caches.arrivals.expect(keyOf(namespace === '' ? { name } : { namespace, name }))
    },
    complete(machine, review, { exempt }, without = []) {
      let sinceMs = clock.monotonic()
      const onPhase = (phase: Phase) => {
        const nowMs = clock.monotonic()
        metrics.phase(phase, (nowMs - sinceMs) / 1000)
        review.onPart?.(phase, (nowMs - sinceMs) / 1000)
        sinceMs = nowMs
      }
      const outcome = completeWith(
        caches,
        machine,
        { ...review, ...(exempt === undefined ? {} : { exempt }) },
        { without, onPhase },
      )
      metrics.matched(outcome.participants.length)
      if (outcome.outcome === 'refused') {
        const { causes, warnings } = outcome
        return { causes, warnings: [...warnings, ...staleWarnings(caches.ageMs())], audit: auditAnnotations(outcome) }
      }
      recall.keep(review.namespace, outcome.machine)
      return { completed: outcome, warnings: warningsOf(outcome, review), audit: auditAnnotations(outcome) }
    },
    patch(before, after, review) {
      const sinceMs = clock.monotonic()
      const patch = writePatch(patchBetween(before, after))
      const seconds = (clock.monotonic() - sinceMs) / 1000
      metrics.phase('patch', seconds)
      review.onPart?.('patch', seconds)
      return patch
    },
    isOwn: (object, { namespace }) => recall.has(namespace, object),
    remember: rememberOf,
    checkPreset(preset, { mayGrantHost }) {
      const checked = checkPreset(preset)
      const causes = needsGrant(preset) && !mayGrantHost ? [...checked.causes, grantMissing] : checked.causes
      return {
        causes,
        warnings: [
          ...checked.warnings,
          ...(causes.length === 0 ? overlapWarnings(preset, caches) : []),
          ...(causes.length === 0
            ? neverValid(plainDomain(preset.spec.domain ?? {}), caches.capabilities().published)
            : []),
        ],
      }
    },
  }
}

/** As many as an author reads. */
const maxOverlapsTold = 5

/** With which presets this one will disagree, now that its author still looks. */
function overlapWarnings(preset: Preset, { candidates }: AdmissionCaches): string[] {
  const compiled = compilePreset(preset)
  if (!('preset' in compiled)) return []
  const { overlaps, isComplete } = findOverlaps(
    compiled.preset,
    candidates.all(),
    virtualMachineStructure(),
    maxOverlapsTold,
  )
  return [
    ...overlaps.map(overlapWarning),
    ...(isComplete ? [] : ['may disagree with more presets: not all were compared']),
  ]
}

const grantMissing: Cause = {
  rule: 'grant-host',
  field: 'spec.domain',
  reason: 'FieldValueForbidden',
  message:
    'holds fields that reach the host: to write them you need the verb "grant-host" on clustervirtualmachinepresets.virtset.io',
}

const staleWarnings = (ageMs: number): string[] =>
  ageMs > staleMs
    ? [`presets may be out of date: the API server was last heard of ${Math.round(ageMs / 1000)} s ago`]
    : []

function askPermissions(
  caches: AdmissionCaches,
  mayAccess: MayAccess,
  review: Review,
): Promise<Permissions> | undefined {
  const { kind, object, user } = review
  if (!isRecord(object) || !isRecord(object['metadata'])) return undefined
  if (kind === 'ClusterVirtualMachinePreset') {
    const parsed = parsePreset(object)
    if (!('preset' in parsed) || !needsGrant(parsed.preset)) return undefined
    if (isSpecKept(review)) return Promise.resolve({ ...noPermissions, mayGrantHost: true })
    const access = { verb: 'grant-host', resource: 'clustervirtualmachinepresets', name: review.name }
    return mayAccess(user, access).then((mayGrantHost) => ({ ...noPermissions, mayGrantHost }))
  }
  const annotations = stringsOf(object['metadata']['annotations'])
  if (kind !== 'VirtualMachine' || annotations[excludePresetsAnnotation] === undefined) return undefined
  const labels = stringsOf(object['metadata']['labels'])
  const selected = caches.candidates.select(labels, caches.namespace(review.namespace))
  return askExemptions(exemptionsToAuthorize(annotations, selected), mayAccess, review)
}

async function askExemptions(ids: readonly string[], mayAccess: MayAccess, { user }: Review): Promise<Permissions> {
  const answers = await Promise.all(
    ids.map((id) => {
      const [first = '', second] = id.split('/')
      return second === undefined
        ? mayAccess(user, { verb: 'exempt', resource: 'clustervirtualmachinepresets', name: first })
        : mayAccess(user, { verb: 'exempt', resource: 'virtualmachinepresets', namespace: first, name: second })
    }),
  )
  return { ...noPermissions, exempt: new Set(ids.filter((_, index) => answers[index] === true)) }
}

/** Labels and annotations may be touched by who may not grant. */
function isSpecKept({ object, oldObject }: Review): boolean {
  return isRecord(object) && isRecord(oldObject) && isSame(object['spec'], oldObject['spec'])
}

const isSame = (left: unknown, right: unknown): boolean => patchBetween({ of: left }, { of: right }).length === 0

const stringsOf = (value: unknown): { readonly [key: string]: string } =>
  Object.fromEntries(
    Object.entries(isRecord(value) ? value : {}).flatMap(([key, item]) =>
      typeof item === 'string' ? [[key, item]] : [],
    ),
  )

function rememberOf(machine: VirtualMachine): Remembered {
  const provenance = decodeProvenance(machine.metadata.annotations?.[completedByAnnotation] ?? '')
  // Unreadable provenance: then all counts as the user's, and nothing may be left out.
  if (provenance === undefined) return { isUsers: () => true, isOverridden: () => false }
  const { origins, overridden, removed } = provenance
  const lost = new Map(
    [...overridden].flatMap(([path, values]) => {
      const users = values.find(({ origin }) => origin.by === 'user')
      return users === undefined ? [] : [[path, users.value] as const]
    }),
  )
  return {
    isUsers: (path) => originOf(origins, path).by === 'user',
    // What was too long to be kept may have been anything.
    isOverridden: (path, value) => {
      const known = lost.get(path)
      return removed.has(path) || (lost.has(path) && (known === undefined || isSameValue(known, value)))
    },
  }
}
