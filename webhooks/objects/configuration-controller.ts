import { setImmediate } from 'node:timers/promises'
import type { Cause } from '../../api/cause.ts'
import type { Condition } from '../../api/object.ts'
import { targetText, type ObjectPreset } from '../../api/object-preset.ts'
import type { WatchedObjects } from '../../inventory/objects.ts'
import { ApiError, isConflict, isForbidden, isNotFound } from '../../runtime/api-error.ts'
import { sleep, timestamp, type Clock } from '../../runtime/clock.ts'
import { findCondition, setCondition, type NewCondition } from '../../runtime/condition.ts'
import type { KubeClient } from '../../runtime/kube.ts'
import type { Logger } from '../../runtime/log.ts'
import {
  clusterObjectPresets,
  keyOf,
  objectPresets,
  presetTargets,
  refOf,
  resource,
  type KubeObject,
  type Persisted,
  type Resource,
} from '../../runtime/resource.ts'
import { isSameJson } from '../admission/same-json.ts'
import type { AuthorReviews, Review } from './author-reviews.ts'
import { webhooksFor, type Exclusions, type Webhook } from './configuration.ts'

interface Configuration extends KubeObject {
  readonly webhooks?: readonly Webhook[]
}

const configurations = resource<Configuration>({
  group: 'admissionregistration.k8s.io',
  version: 'v1',
  plural: 'mutatingwebhookconfigurations',
  kind: 'MutatingWebhookConfiguration',
  namespaced: false,
})

export interface ConfigurationControllerOptions {
  readonly kube: KubeClient
  readonly objects: WatchedObjects
  readonly exclusions: Exclusions
  readonly reviews: AuthorReviews
  readonly log: Logger
  readonly clock: Clock
}

/** Part of the overlay object-presets; the webhooks fill it in and never create it. */
const name = 'virtset-objects'
/** Changes that come together, such as presets of one file, are written at once. */
const collectMs = 100
/** While changes do not end, each round waits twice as long, up to this: the API server reads each configuration. */
const longestCollectMs = 1000
/** While presets change, their status is written for this long, before webhooks are registered for other presets. */
const statusMs = 500
/** Statuses are compared for at most this long at a time. */
const sliceMs = 20
/** A configuration that was changed by others is repaired within this time. */
const intervalMs = 15_000

/**
 * Keeps the MutatingWebhookConfiguration in step with targets and presets, and writes the status of both, until the
 * signal aborts. All replicas do the same: each writes only what differs, and resourceVersions let one of them write.
 */
export async function runConfigurationController(
  options: ConfigurationControllerOptions,
  signal: AbortSignal,
): Promise<void> {
  const { objects, log, clock } = options
  /** Nothing is registered, so that without targets nothing is read. */
  let isIdle = false
  let isOutdated = false
  /** The preset whose status is the next to be written. */
  let first = 0
  let pauseMs = collectMs
  let wake = () => {}
  objects.onChange(() => {
    isOutdated = true
    wake()
  })
  while (!signal.aborted) {
    const woken = new Promise<void>((resolve) => (wake = resolve))
    isOutdated = false
    const hasTargets = objects.storedTargets().length > 0
    if (hasTargets || !isIdle) {
      isIdle = await settleConfiguration(options, () => isOutdated, first).then(
        (next) => {
          first = next
          return !hasTargets
        },
        (error: unknown) => {
          log.warn({ err: error }, 'could not settle the configuration for preset targets; retrying')
          return false
        },
      )
    }
    const waiting = new AbortController()
    const fromMs = clock.monotonic()
    const slept = sleep(clock, intervalMs, AbortSignal.any([signal, waiting.signal])).catch(() => {})
    await Promise.race([woken, slept])
    waiting.abort()
    await slept
    const isQuiet = clock.monotonic() - fromMs >= longestCollectMs
    pauseMs = isQuiet ? collectMs : Math.min(2 * pauseMs, longestCollectMs)
    await sleep(clock, pauseMs, signal).catch(() => {})
  }
}

/**
 * Brings the configuration and the status of targets and presets up to date once. If a tenant changes presets all the
 * time, the round ends before all statuses are written.
 * @param first the preset to begin with
 * @returns the preset that is the first of the next round
 */
export async function settleConfiguration(
  options: ConfigurationControllerOptions,
  isOutdated: () => boolean = () => false,
  first = 0,
): Promise<number> {
  const { objects, exclusions, reviews, clock } = options
  const isInstalled = await configure(options, (stored) => webhooksFor(objects.targets(), exclusions, stored))
  for (const target of objects.storedTargets()) {
    const entry = objects.target(targetText(target.spec))
    const isOwn = entry?.target.metadata.name === target.metadata.name
    const causes = entry !== undefined && 'causes' in entry ? entry.causes : []
    const ready = isOwn ? readyCondition(causes, isInstalled) : duplicate
    await writeStatus(options, presetTargets, target, {}, [ready])
  }
  await reviews.refresh(objects)
  const presets = objects.storedPresets()
  const begin = clock.monotonic()
  let sinceMs = begin
  for (const [index, preset] of [...presets.slice(first), ...presets.slice(0, first)].entries()) {
    const of = preset.metadata.namespace === undefined ? clusterObjectPresets : objectPresets
    const { fields, accepted } = acceptanceOf(objects, preset)
    const conditions = [accepted, ...permittedConditions(preset, reviews.get(preset))]
    await writeStatus(options, of, preset, fields, conditions)
    const nowMs = clock.monotonic()
    if (isOutdated() && nowMs - begin >= statusMs) return (first + index + 1) % presets.length
    if (nowMs - sinceMs < sliceMs) continue
    await setImmediate()
    sinceMs = clock.monotonic()
  }
  return 0
}

/** Returns whether the configuration exists. */
async function configure(
  { kube, objects, log }: ConfigurationControllerOptions,
  wantedWith: (stored: readonly Webhook[]) => readonly Webhook[],
): Promise<boolean> {
  try {
    const stored = await kube.get(configurations, { name })
    const wanted = wantedWith(stored.webhooks ?? [])
    if (isSameJson(stored.webhooks ?? [], wanted)) return true
    await kube.update(configurations, { ...stored, webhooks: wanted })
    log.info({ webhooks: wanted.map((webhook) => webhook.name) }, 'the webhooks for preset targets have changed')
    return true
  } catch (error) {
    // Another replica was first; its change is read in the next round.
    if (isConflict(error)) return true
    const isMissing = isNotFound(error) || isForbidden(error)
    if (isMissing && objects.storedTargets().length === 0) return false
    if (isMissing) {
      log.warn({ err: error }, 'the overlay object-presets is not installed: presets for objects are not applied')
      return false
    }
    throw error
  }
}

function readyCondition(causes: readonly Cause[], isInstalled: boolean): NewCondition {
  const type = 'Ready'
  if (causes.length > 0) return { type, status: 'False', reason: 'Invalid', message: sentence(causes) }
  if (!isInstalled) {
    const message = 'the MutatingWebhookConfiguration virtset-objects is missing: install the overlay object-presets'
    return { type, status: 'False', reason: 'NotInstalled', message }
  }
  return { type, status: 'True', reason: 'Ready', message: '' }
}

const duplicate: NewCondition = {
  type: 'Ready',
  status: 'False',
  reason: 'Invalid',
  message: 'there is another PresetTarget for this kind',
}

function acceptanceOf(
  objects: WatchedObjects,
  { metadata, spec }: Persisted<ObjectPreset>,
): { readonly fields: { readonly revision?: string }; readonly accepted: NewCondition } {
  const type = 'Accepted'
  const name = targetText(spec.target)
  const entry = objects.target(name)
  if (entry === undefined || !('kind' in entry)) {
    const message = `spec.target: there is no PresetTarget for ${name} that is ready`
    return { fields: {}, accepted: { type, status: 'False', reason: 'NoTarget', message } }
  }
  const id = keyOf(metadata)
  const preset = entry.candidates.get(id)
  if (preset !== undefined) {
    const { revision } = preset.origin
    return { fields: { revision }, accepted: { type, status: 'True', reason: 'Accepted', message: '' } }
  }
  const causes = entry.quarantined.get(id)?.causes ?? []
  return { fields: {}, accepted: { type, status: 'False', reason: 'Invalid', message: sentence(causes) } }
}

/**
 * What is not known leaves the stored condition as it is. So does a review of some time ago: that of another replica may
 * be newer, and while they differ, each would overwrite the condition of the other in every round.
 */
function permittedConditions(
  { metadata, status }: Persisted<ObjectPreset>,
  review: Review | undefined,
): readonly NewCondition[] {
  if (review === undefined) return []
  const type = 'Permitted'
  const stored = findCondition(status?.conditions, type)
  if (!review.isRecent && stored?.observedGeneration === (metadata.generation ?? 1)) return []
  const { author, causes } = review
  if (causes.length === 0) return [{ type, status: 'True', reason: 'Permitted', message: '' }]
  const message = `the author ${author.username} has lost a permission; the preset stays in use: ${sentence(causes)}`
  return [{ type, status: 'False', reason: 'PermissionLost', message }]
}

const maxShown = 10

function sentence(causes: readonly Cause[]): string {
  const words = causes.slice(0, maxShown).map(({ field, message }) => `${field}: ${message}`)
  return [...words, ...(causes.length > maxShown ? [`and ${causes.length - maxShown} more`] : [])].join('; ')
}

interface Status {
  readonly observedGeneration?: number
  readonly conditions?: readonly Condition[]
}

/**
 * Writes nothing if the status is the same already, or if the object has changed in the meantime. An object whose
 * status the API server refuses must not keep those of others from being written.
 */
async function writeStatus<T extends KubeObject & { readonly status?: Status }>(
  { kube, clock, log }: ConfigurationControllerOptions,
  of: Resource<T>,
  object: Persisted<T>,
  fields: object,
  news: readonly NewCondition[],
): Promise<void> {
  const observedGeneration = object.metadata.generation ?? 1
  const before: Status = object.status ?? {}
  const conditions = news.reduce<readonly Condition[] | undefined>(
    (stored, condition) => setCondition(stored, { ...condition, observedGeneration }, timestamp(clock)),
    before.conditions,
  )
  const status = { ...before, ...fields, observedGeneration, conditions }
  if (isSameJson(status, before)) return
  const { resourceVersion } = object.metadata
  const body = { metadata: { resourceVersion }, status }
  await kube
    .patch(of, refOf(keyOf(object.metadata)), { type: 'merge', body }, { subresource: 'status' })
    .catch((error: unknown) => {
      if (isConflict(error) || isNotFound(error)) return
      if (!(error instanceof ApiError)) throw error
      log.warn({ err: error, object: keyOf(object.metadata) }, 'a status could not be written; retrying')
    })
}
