import { targetText, type Target } from '../api/object-preset.ts'
import { isRecord } from '../api/schema.ts'
import { impactOnObject, type Alternatives } from '../completion/impact.ts'
import type { Manifest } from '../inventory/manifests.ts'
import { createCandidates } from '../presets/candidates.ts'
import type { QuarantinedPreset } from '../presets/compile.ts'
import type { Subject } from '../presets/kind.ts'
import type { ObjectKind } from '../presets/object-kind.ts'
import { compileSelector, isSelected } from '../presets/selector.ts'
import { writtenPart } from '../presets/written.ts'
import { changesBetween } from './change.ts'
import type { Assessed } from './impact-of.ts'
import { namespaceOf, type ObjectState } from './impact-state.ts'
import { nameOf } from './input.ts'
import type { KindSource } from './object-kinds.ts'
import { kindIn, namespaceFor, objectPresetsOf, targetsIn } from './object-scope.ts'
import { asObjectSent } from './object-sent.ts'
import { completeObject, type ObjectOutcome } from './objects.ts'

/** The presets of one kind, now and with the given ones applied. */
interface AlternativesOfKind extends Alternatives {
  readonly kind: ObjectKind
  readonly target: Target
  readonly quarantined: ReadonlyMap<string, QuarantinedPreset>
}

/**
 * The alternatives for each kind of the given presets.
 * @param own the namespace of presets without one
 * @throws Usage if a kind cannot be used
 */
export async function alternativesOfKinds(
  given: readonly Manifest[],
  state: Pick<ObjectState, 'presets' | 'targets'>,
  kinds: KindSource,
  own: string,
): Promise<readonly AlternativesOfKind[]> {
  const targets = targetsIn(given)
  const read = await kinds.read(targets)
  return targets.map((target) => {
    const kind = kindIn(read, target)
    const restricted = state.targets.get(targetText(target))?.restricted ?? []
    const now = objectPresetsOf(state.presets, kind, own, restricted)
    const { compiled, quarantined } = objectPresetsOf(given, kind, own, restricted)
    const before = createCandidates(now.compiled.values())
    const after = createCandidates([...now.compiled.values(), ...compiled.values()])
    return { kind, target, quarantined, before, after }
  })
}

/** Completes each object of a kind as its user wrote it with both. */
export async function* assessObjects(
  { kind, target, ...alternatives }: AlternativesOfKind,
  state: ObjectState,
  own: string,
): AsyncGenerator<Assessed> {
  const spec = state.targets.get(targetText(target))
  const selector = compileSelector(spec?.namespaceSelector ?? {})
  for await (const object of state.objects(target)) {
    const namespace = kind.isNamespaced ? namespaceOf(object, own) : ''
    const place = namespaceFor(kind, namespace, state.labelsOf(namespace))
    if (!isSelected(selector, place.labels) || !isRecord(object['metadata'])) {
      yield { namespace, object }
      continue
    }
    // The API server has checked its metadata, and nothing else is required of a subject.
    const stored = object as unknown as Subject
    const sent = asObjectSent(stored, kind.structure)
    const written = writtenPart({ ...withoutStatusFields(sent) }, kind.structure, evidenceOf(stored, target))
    const impact = impactOnObject(sent, place, alternatives, (candidates) =>
      resultOf(
        completeObject(
          { object: sent, scope: { kind, candidates, quarantined: [], namespace: place, warnings: [] } },
          written,
        ),
      ),
    )
    if (impact === undefined) {
      yield { namespace, object }
      continue
    }
    const affected = {
      name: `${kind.noun} ${nameOf(object)}`,
      changes: impact.kind === 'different' ? changesBetween(impact.before, impact.after) : [],
      causes: impact.kind === 'refused' ? impact.causes : [],
      isFreed: impact.kind === 'freed',
    }
    yield { namespace, object, affected }
  }
}

const resultOf = ({ outcome, object, causes }: ObjectOutcome) =>
  outcome === 'refused' ? { outcome, causes } : { outcome, object }

/** What controllers have written to subresources, such as the status, does not make the user's fields uncertain. */
function withoutStatusFields(sent: Subject): Subject {
  const { managedFields = [], ...metadata } = sent.metadata
  const own = managedFields.filter((entry) => !isRecord(entry) || entry['subresource'] === undefined)
  return { ...sent, metadata: { ...metadata, managedFields: own } }
}

const clientSideApply = 'kubectl-client-side-apply'

/** The annotation of client-side apply counts if kubectl itself has written the object. */
function evidenceOf({ metadata }: Subject, { apiVersion }: Target) {
  const isApplied = metadata.managedFields?.some((entry) => isRecord(entry) && entry['manager'] === clientSideApply)
  return { apiVersion, fieldManager: isApplied === true ? clientSideApply : undefined }
}
