import type { Cause } from '../api/cause.ts'
import { capCauses } from '../api/causes.ts'
import { checkMetadata } from '../api/metadata.ts'
import { targetText, type Target } from '../api/object-preset.ts'
import { refusalText, statusCauses, type StatusCause } from '../api/refusal.ts'
import { isRecord, nestingCauses } from '../api/schema.ts'
import { maxSteps, sizeOf, within } from '../api/steps.ts'
import { createCandidates } from '../presets/candidates.ts'
import type { CompiledPreset, QuarantinedPreset } from '../presets/compile.ts'
import { injectInto } from '../presets/inject.ts'
import type { Subject } from '../presets/kind.ts'
import { kindsIn, type Kinds, type ObjectKind, type ReadKind } from '../presets/object-kind.ts'
import { compileObjectPreset } from '../presets/object-preset.ts'
import type { Provenance } from '../presets/origins.ts'
import { findOverlaps, overlapText } from '../presets/overlap.ts'
import type { Labels } from '../presets/selector.ts'
import { writtenPart } from '../presets/written.ts'

/**
 * The package virtset-presets: presets for objects of any kind, as the webhooks and `kubectl preset` apply them. Pure:
 * no I/O, no clock, no randomness. `README.md` documents it.
 */

export { kindsIn, refusalText, statusCauses, targetText }
export type { Cause, Kinds, Labels, ObjectKind, Provenance, ReadKind, StatusCause, Target }

export interface Settings {
  /** Paths that an ObjectPreset must not set, e.g. `spec.containers[*].securityContext`; none if absent. */
  readonly restricted?: readonly string[]
  /** No preset applies in these namespaces; kube-system if absent. */
  readonly protectedNamespaces?: readonly string[]
}

/** Where and how an object is created. */
export interface Context {
  /** `labels` are for `namespaceSelector`. Absent for cluster-scoped kinds. */
  readonly namespace?: { readonly name: string; readonly labels?: Labels }
  /** The AdmissionRequest: for conditions, and to know what `kubectl apply` has sent. */
  readonly request?: unknown
}

export interface Completed extends Provenance {
  /** Unchanged where no preset changed it. */
  readonly object: { readonly [key: string]: unknown }
  /** Why the object is refused; empty if it is not. */
  readonly causes: readonly Cause[]
  readonly warnings: readonly string[]
}

/** The presets for one kind. */
export interface Presets {
  /**
   * Adds a preset, or replaces the one of its namespace and name. With causes, it is broken: it is not applied, and
   * objects that it selects get a warning.
   * @param preset an ObjectPreset or ClusterObjectPreset as JSON; not trusted
   * @returns warnings about the preset, and about others with which it could disagree
   */
  set(preset: unknown): { readonly causes: readonly Cause[]; readonly warnings: readonly string[] }
  /** @param id `NAMESPACE/NAME`, or `NAME` of a ClusterObjectPreset */
  delete(id: string): void
  /**
   * Merges the presets that select an object into it.
   * @param object as JSON; not trusted, and not modified
   */
  complete(object: unknown, context?: Context): Completed
}

export function createPresets(
  kind: ObjectKind,
  { restricted = [], protectedNamespaces = ['kube-system'] }: Settings = {},
): Presets {
  const kinds: Kinds = new Map([[targetText(kind.target), () => ({ kind })]])
  const candidates = createCandidates<CompiledPreset>([], protectedNamespaces)
  const quarantined = new Map<string, QuarantinedPreset>()
  const remove = (id: string): void => {
    candidates.delete(id)
    quarantined.delete(id)
  }
  return {
    set(preset) {
      const compiled = compileObjectPreset(preset, kinds, restricted)
      if ('quarantined' in compiled) {
        const { id, causes } = compiled.quarantined
        remove(id)
        quarantined.set(id, compiled.quarantined)
        return { causes, warnings: [] }
      }
      const { overlaps } = findOverlaps(compiled.preset, candidates.all(), kind.structure)
      remove(compiled.preset.id)
      candidates.set(compiled.preset)
      const texts = overlaps.map((one) => `preset "${compiled.preset.id}" ${overlapText(one, kind.noun)}`)
      return { causes: [], warnings: [...compiled.warnings, ...texts] }
    },
    delete: remove,
    complete(given, { namespace: { name = '', labels = {} } = { name: '' }, request } = {}) {
      const object: Fields = isRecord(given) ? given : {}
      const tooDeep = Object.entries(object).flatMap(([key, value]) => nestingCauses(value, key))
      const causes = tooDeep.length > 0 ? tooDeep : checkMetadata(object['metadata'], 'metadata')
      if (causes.length > 0) return { ...unchanged(object), causes }
      // Its metadata has been checked, and nothing else is required of a subject.
      const subject = object as unknown as Subject & Fields
      const ownLabels = name === '' ? {} : { ...labels, 'kubernetes.io/metadata.name': name }
      return within<Completed>(
        maxSteps,
        (steps) => {
          steps.spend(sizeOf(object))
          const written = writtenPart(subject, kind.structure, evidenceIn(kind, request))
          const injected = injectInto(subject, kind, {
            presets: candidates,
            quarantined: quarantined.values(),
            namespace: { name, labels: ownLabels },
            request: request ?? {},
            steps,
            ...(written === undefined ? {} : { written }),
          })
          const { origins, overridden, removed, skipped, warnings } = injected
          const merged: Fields = { ...injected.object }
          const all = capCauses(injected.causes, 'spec')
          return { object: merged, causes: all, warnings, origins, overridden, removed, skipped }
        },
        () => ({ ...unchanged(object), causes: [tooMuchWork] }),
      )
    },
  }
}

type Fields = { readonly [key: string]: unknown }

const unchanged = (object: Fields) => ({
  object,
  warnings: [],
  origins: new Map(),
  overridden: new Map(),
  removed: new Map(),
  skipped: [],
})

function evidenceIn({ target: { apiVersion } }: ObjectKind, request: unknown) {
  const options = isRecord(request) ? request['options'] : undefined
  const fieldManager = isRecord(options) ? options['fieldManager'] : undefined
  return { apiVersion, fieldManager: typeof fieldManager === 'string' ? fieldManager : undefined }
}

const tooMuchWork: Cause = {
  rule: 'too-much-work',
  field: 'spec',
  reason: 'FieldValueTooMany',
  message: `takes more than ${maxSteps.toLocaleString('en-US')} steps to complete with the presets that select it`,
}
