import type { Cause, Origin } from '../../api/cause.ts'
import { capCauses } from '../../api/causes.ts'
import { targetText } from '../../api/object-preset.ts'
import { jsonBytes } from '../../api/json-bytes.ts'
import { hasLongInteger } from '../../api/long-integer.ts'
import { isRecord } from '../../api/schema.ts'
import { maxSteps, sizeOf, stepsOfPath, within } from '../../api/steps.ts'
import { completedByAnnotation } from '../../api/virtual-machine.ts'
import { decodeProvenance, encodeProvenance, type Provenance } from '../../completion/provenance.ts'
import type { ObjectTarget } from '../../inventory/objects.ts'
import type { Namespace } from '../../presets/candidates.ts'
import { injectInto, type Injected, type Participant } from '../../presets/inject.ts'
import type { Subject } from '../../presets/kind.ts'
import { writtenPart } from '../../presets/written.ts'
import { auditAnnotations } from '../admission/audit.ts'
import { refuse } from '../admission/kind.ts'
import { patchBetween, writePatch } from '../admission/patch.ts'
import type { AdmissionRequest, AdmissionResult } from '../admission/request.ts'

/**
 * Applies the presets of its kind to a new object. Pure.
 * @param exempt IDs of presets that its user may exclude
 */
export function completeObject(
  request: AdmissionRequest,
  entry: ObjectTarget,
  namespace: Namespace,
  exempt: ReadonlySet<string>,
): AdmissionResult {
  const sent = request.object
  if (!isRecord(sent) || !isRecord(sent['metadata'])) return { allowed: true }
  // The API server has checked its metadata, and nothing else is required of a subject.
  const { object, claim } = takeClaim(sent as unknown as Sent)
  const injected = within(
    maxSteps,
    (steps) => {
      steps.spend(sizeOf(sent))
      const written = writtenPart(object, entry.kind.structure, evidenceOf(request, entry))
      const made = injectInto(object, entry.kind, {
        presets: entry.candidates,
        quarantined: entry.quarantined.values(),
        namespace,
        exempt,
        request: request.request,
        steps,
        ...(written === undefined ? {} : { written }),
      })
      for (const paths of [made.origins, made.overridden, made.removed]) {
        for (const path of paths.keys()) steps.spend(stepsPerOrigin * (1 + stepsOfPath(path)))
      }
      return made
    },
    () => undefined,
  )
  if (injected === undefined) return refuse([tooMuchWork(entry)])
  const { warnings } = injected
  const audit = auditAnnotations(injected)
  if (injected.causes.length > 0) {
    return { ...refuse(capCauses([...injected.causes], 'spec'), warnings), audit }
  }
  // What presets add to a list comes after the user's items.
  const operations = patchBetween(sent, { ...annotated(injected, claim) }, injected.removed.size > 0)
  const rewritten = operations.find((operation) => 'value' in operation && hasLongInteger(operation.value))
  if (rewritten !== undefined) return refuse([tooPrecise(entry, rewritten.path)], warnings)
  const most = Math.min(jsonBytes(sent, longestPatch) + mostAdded, longestPatch)
  if (jsonBytes(operations, most) > most) return refuse([tooLarge(entry)], warnings)
  return { allowed: true, patch: writePatch(operations), warnings, audit }
}

/** To encode the annotation visits each path several times. Unlike those of a VM, lists of users have no limit here. */
const stepsPerOrigin = 8

/**
 * In bytes. A user can ask for many patches at once, each of which stays in memory until the API server has read it. A
 * patch can restate what was sent, where it changes much of it.
 */
const mostAdded = 1024 * 1024
/** In bytes: the API server stores no larger object. */
const longestPatch = 3 * 1024 * 1024

type Sent = Subject & { readonly [key: string]: unknown }

/** Conditions and merging do not see the annotation of an earlier call for the same object. */
function takeClaim(sent: Sent): { readonly object: Sent; readonly claim: string | undefined } {
  const { [completedByAnnotation]: claim, ...annotations } = sent.metadata.annotations ?? {}
  if (claim === undefined) return { object: sent, claim }
  return { object: { ...sent, metadata: { ...sent.metadata, annotations } }, claim }
}

function evidenceOf({ request }: AdmissionRequest, { target }: ObjectTarget) {
  const options = request['options']
  const fieldManager = isRecord(options) ? options['fieldManager'] : undefined
  return {
    apiVersion: target.spec.apiVersion,
    fieldManager: typeof fieldManager === 'string' ? fieldManager : undefined,
  }
}

/** The object with its provenance; unchanged if no preset has changed it. */
function annotated(injected: Injected, claim: string | undefined): Subject {
  const { object, participants } = injected
  const { origins, overridden, removed, skipped } = shown(injected, claim, participants)
  const { annotations: _, ...metadata } = object.metadata
  const others = object.metadata.annotations
  if (origins.size + overridden.size + removed.size === 0) {
    return others !== undefined && Object.keys(others).length === 0 ? { ...object, metadata } : object
  }
  const { text } = encodeProvenance({ origins, overridden, removed, skipped }, object)
  return { ...object, metadata: { ...metadata, annotations: { ...others, [completedByAnnotation]: text } } }
}

/**
 * When the API server calls again because another webhook has changed the object, values of presets count as the
 * user's. The origins are then those in the annotation, for presets that still take part. Users can write the
 * annotation; only the display depends on it.
 */
function shown(injected: Provenance, claim: string | undefined, participants: readonly Participant[]): Provenance {
  const claimed = claim === undefined ? undefined : decodeProvenance(claim)
  if (claimed === undefined) return injected
  const known = new Set(participants.map(({ preset }) => JSON.stringify(preset.origin)))
  const isKnown = (origin: Origin | undefined) => known.has(JSON.stringify(origin))
  return {
    origins: new Map([...[...claimed.origins].filter(([, origin]) => isKnown(origin)), ...injected.origins]),
    overridden: new Map([
      ...[...claimed.overridden].filter(([path]) => isKnown(claimed.origins.get(path))),
      ...injected.overridden,
    ]),
    removed: new Map([...[...claimed.removed].filter(([, origin]) => isKnown(origin)), ...injected.removed]),
    skipped: injected.skipped,
  }
}

const tooLarge = ({ target }: ObjectTarget): Cause => ({
  rule: 'too-much-work',
  field: 'spec',
  reason: 'FieldValueTooLong',
  message: `would get more than 1 MiB from the presets for ${targetText(target.spec)}, or be larger than the API server can store`,
  suggestion: 'let the presets set less in each item of its lists',
})

/** @param path a JSON pointer */
const tooPrecise = ({ target }: ObjectTarget, path: string): Cause => ({
  rule: 'long-integer',
  field: path.slice(1).replaceAll('/', '.'),
  reason: 'FieldValueInvalid',
  message: `has an integer beyond 2^53, which would not remain exact when the presets for ${targetText(target.spec)} remove items of the list that it is in`,
  suggestion: 'exclude this object from presets that remove items of the list',
})

function tooMuchWork({ target, candidates }: ObjectTarget): Cause {
  return {
    rule: 'too-much-work',
    field: 'spec',
    reason: 'FieldValueTooMany',
    message: `takes more than ${maxSteps.toLocaleString('en-US')} steps to complete with the presets that select it`,
    suggestion: `shorten its lists, or those of the ${candidates.size()} presets for ${targetText(target.spec)}`,
  }
}
