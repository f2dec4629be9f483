import { setImmediate } from 'node:timers/promises'
import type { Cause } from '../api/cause.ts'
import { loggedCauses } from '../api/causes.ts'
import {
  authorAnnotation,
  longestAuthorBytes,
  targetText,
  type ObjectPreset,
  type Target,
} from '../api/object-preset.ts'
import { parsePresetTarget, type PresetTarget } from '../api/preset-target.ts'
import { isRecord } from '../api/schema.ts'
import { createCandidates, type Candidates } from '../presets/candidates.ts'
import type { CompiledPreset, QuarantinedPreset } from '../presets/compile.ts'
import type { ObjectKind } from '../presets/object-kind.ts'
import { compileObjectPreset } from '../presets/object-preset.ts'
import { checkPresetTarget, type ServedKind } from '../presets/target-check.ts'
import { sleep, type Clock } from '../runtime/clock.ts'
import type { KubeClient } from '../runtime/kube.ts'
import type { Logger } from '../runtime/log.ts'
import { startReflector, type Reflector } from '../runtime/reflector.ts'
import {
  clusterObjectPresets,
  identity,
  keyOf,
  objectPresets,
  presetTargets,
  resource,
  type KubeObject,
  type Persisted,
  type Resource,
} from '../runtime/resource.ts'
import { slimAnnotations, slimMetadata } from '../runtime/slim.ts'
import type { Change } from '../runtime/store.ts'
import { createNamespaceSizes, type NamespaceSizes } from './namespace-sizes.ts'
import { createServedKinds } from './served-kinds.ts'

/** A kind with its presets. */
export interface ObjectTarget {
  readonly target: PresetTarget
  readonly kind: ObjectKind
  /** The name of its resource, e.g. `deployments`. */
  readonly resource: string
  readonly candidates: Candidates
  /** Presets that are broken and therefore not applied, by ID. */
  readonly quarantined: Map<string, QuarantinedPreset>
}

/** A target that cannot be used: its schema has not been read yet, or it is invalid. */
export interface UnusableTarget {
  readonly target: PresetTarget
  readonly causes: readonly Cause[]
}

/** The kinds of other APIs that presets complete, and these presets. */
export interface ObjectInventory {
  /** @param name of `targetText` */
  target(name: string): ObjectTarget | UnusableTarget | undefined
  targets(): Iterable<ObjectTarget | UnusableTarget>
}

interface WatchedTarget extends ObjectTarget {
  readonly sizes: NamespaceSizes
}

export interface WatchedObjects extends ObjectInventory {
  storedTargets(): readonly Persisted<PresetTarget>[]
  storedPresets(): readonly Persisted<ObjectPreset>[]
  /** Reads the schema of a kind, whether it is a target or not. */
  read(target: Target): Promise<ServedKind>
  /** Called after each change of a preset, a target or a schema. `id` is that of the preset, if it was one. */
  onChange(listener: (id: string | undefined) => void): void
  readonly reflectors: readonly Pick<Reflector<KubeObject>, 'ageMs' | 'statistics' | 'hasSynced' | 'synced'>[]
  unready(): string[]
  stop(): Promise<void>
}

export interface WatchObjectsOptions {
  readonly kube: KubeClient
  readonly log: Logger
  readonly clock: Clock
  /** No object in these is completed. */
  readonly protectedNamespaces: readonly string[]
}

/** A schema that has changed is read within this time. */
const refreshMs = 30_000
/** Presets are compiled for at most this long at a time. */
const sliceMs = 20
/** Until a kind is served, and while the API server does not respond. */
const firstRetryMs = 500

/** Without a target it watches three empty collections, and does nothing else. */
export function watchObjects({ kube, log, clock, protectedNamespaces }: WatchObjectsOptions): WatchedObjects {
  const kinds = createServedKinds(kube)
  const known = new Map<string, WatchedTarget | UnusableTarget>()
  const listeners: ((id: string | undefined) => void)[] = []
  const changed = (id?: string) => {
    for (const listener of listeners) listener(id)
  }
  const indexers = { target: (preset: ObjectPreset) => [targetIn(preset)] }
  const presets = [objectPresets, clusterObjectPresets].map((of) =>
    startReflector({ kube, resource: readObjectPresets(of), log, clock, slim: slimPreset, indexers }),
  )
  const targets = startReflector({ kube, resource: presetTargets, log, clock })
  const reflectors = [...presets, targets]
  const stopping = new AbortController()

  const add = (entry: WatchedTarget, preset: Persisted<ObjectPreset>): void => {
    const { target, kind } = entry
    const read = new Map([[targetText(target.spec), () => ({ kind })]])
    const compiled = entry.sizes.limit(preset, compileObjectPreset(preset, read, target.spec.restricted))
    if ('preset' in compiled) return entry.candidates.set(compiled.preset)
    entry.quarantined.set(compiled.quarantined.id, compiled.quarantined)
    log.warn(
      { preset: compiled.quarantined.id, causes: loggedCauses(compiled.quarantined.causes) },
      'a broken preset is quarantined',
    )
  }

  const build = (stored: PresetTarget): WatchedTarget | UnusableTarget => {
    const parsed = parsePresetTarget(stored)
    if ('causes' in parsed) return { target: stored, causes: parsed.causes }
    const { target } = parsed
    const served = kinds.get(target.spec)
    if (served === undefined) return { target, causes: [notRead] }
    const causes = checkPresetTarget(target, served)
    if (causes.length > 0 || 'causes' in served) return { target, causes }
    const candidates = createCandidates<CompiledPreset>([], protectedNamespaces)
    return { target, ...served, candidates, quarantined: new Map(), sizes: createNamespaceSizes() }
  }

  /** Adds the stored presets of an entry, in slices: thousands of large ones take seconds. */
  const fill = async (entry: WatchedTarget): Promise<void> => {
    const name = targetText(entry.target.spec)
    let since = clock.monotonic()
    for (const { store } of presets) {
      for (const { metadata } of store.byIndex('target', name)) {
        const id = keyOf(metadata)
        const preset = store.get(id)
        // Changes in the meantime are those of onPreset.
        if (preset !== undefined && targetIn(preset) === name) put(entry, id, preset)
        if (clock.monotonic() - since < sliceMs) continue
        await setImmediate()
        since = clock.monotonic()
      }
    }
  }

  /** Replaces `known` when it is complete; presets that change meanwhile are put into both. */
  let next: Map<string, WatchedTarget | UnusableTarget> | undefined
  const buildOnce = async (): Promise<void> => {
    next = new Map()
    for (const target of targets.store.list()) {
      const entry = build(target)
      const name = targetText(target.spec)
      // If two targets name one kind, at least one of them has a wrong name and cannot be used.
      if (next.has(name) && !('kind' in entry)) continue
      next.set(name, entry)
      if ('kind' in entry) await fill(entry)
      if (stopping.signal.aborted) return
    }
    known.clear()
    for (const [name, entry] of next) known.set(name, entry)
    next = undefined
    followTargets()
    changed()
  }

  /** A target that is not read yet must not seem to be absent, also if it was added while others were read. */
  const followTargets = (): void => {
    const stored = new Map(targets.store.list().map((target) => [targetText(target.spec), target]))
    for (const name of known.keys()) if (!stored.has(name)) known.delete(name)
    for (const [name, target] of stored) if (!known.has(name)) known.set(name, { target, causes: [notRead] })
  }

  /** Whether targets or schemas have changed since the last build began. */
  let isOutdated = false
  let building = Promise.resolve()
  const buildAll = (): Promise<void> => {
    followTargets()
    isOutdated = true
    building = building
      .then(async () => {
        if (!isOutdated) return
        isOutdated = false
        await buildOnce()
      })
      .catch((error: unknown) => log.error({ err: error }, 'the presets of a target could not be read'))
    return building
  }

  const put = (entry: WatchedTarget, id: string, preset: Persisted<ObjectPreset> | undefined): void => {
    entry.candidates.delete(id)
    entry.quarantined.delete(id)
    entry.sizes.remove(id)
    if (preset !== undefined) add(entry, preset)
  }

  /** Adds those that were quarantined because the presets of the namespace were too large together. */
  const readmit = (entry: WatchedTarget, namespace: string | undefined): void => {
    for (const id of entry.sizes.fitting(namespace)) {
      put(
        entry,
        id,
        presets.map(({ store }) => store.get(id)).find((preset) => preset !== undefined),
      )
      changed(id)
    }
  }

  const onPreset = (change: Change<ObjectPreset>): void => {
    const id = keyOf(change.object.metadata)
    const isStatus =
      change.kind === 'updated' && change.object.metadata.generation === change.previous.metadata.generation
    if (isStatus) return
    const before = targetIn(change.kind === 'updated' ? change.previous : change.object)
    const after = change.kind === 'deleted' ? undefined : targetIn(change.object)
    for (const entries of [known, next]) {
      for (const name of new Set([before, after])) {
        const entry = name === undefined ? undefined : entries?.get(name)
        if (entry === undefined || !('kind' in entry)) continue
        put(entry, id, name === after ? change.object : undefined)
        readmit(entry, change.object.metadata.namespace)
      }
    }
    changed(id)
  }

  /** Whether each target that was stored at the start has been read, or could not be read. */
  let hasTried = false
  let wake = () => {}
  targets.onChange((change) => {
    if (change.kind === 'updated' && change.object.metadata.generation === change.previous.metadata.generation) return
    void buildAll()
    wake()
  })
  for (const reflector of presets) reflector.onChange(onPreset)

  const refreshAll = async (): Promise<void> => {
    let retryMs = firstRetryMs
    while (!stopping.signal.aborted) {
      const woken = new Promise<'woken'>((resolve) => (wake = () => resolve('woken')))
      const isSynced = targets.hasSynced()
      const wanted = targets.store.list().map(({ spec }) => spec)
      const isRead = await kinds.refresh(wanted).then(
        async ({ isChanged, errors }) => {
          if (isChanged) await buildAll()
          for (const err of errors) log.warn({ err }, 'a schema of preset targets could not be read; retrying')
          return [...known.values()].every((entry) => 'kind' in entry)
        },
        (error: unknown) => {
          log.warn({ err: error }, 'the schemas of preset targets could not be read; retrying')
          return false
        },
      )
      hasTried ||= isSynced
      retryMs = isRead ? firstRetryMs : Math.min(refreshMs, retryMs * 2)
      const waiting = new AbortController()
      const signal = AbortSignal.any([stopping.signal, waiting.signal])
      const slept = sleep(clock, isRead ? refreshMs : retryMs, signal).catch(() => {})
      if ((await Promise.race([woken, slept])) === 'woken') retryMs = firstRetryMs
      waiting.abort()
      await slept
    }
  }
  const refreshing = refreshAll()

  return {
    target: (name) => known.get(name),
    targets: () => known.values(),
    storedTargets: () => targets.store.list(),
    storedPresets: () => presets.flatMap(({ store }) => store.list()),
    async read(target) {
      const { isChanged, errors } = await kinds.refresh([target])
      if (errors.length > 0) throw errors[0]
      if (isChanged) void buildAll()
      return kinds.get(target) ?? { causes: [notRead] }
    },
    onChange: (listener) => void listeners.push(listener),
    reflectors,
    unready: () => [
      ...reflectors
        .filter((reflector) => !reflector.hasSynced())
        .map((reflector) => `the cache of ${reflector.statistics().resource} has not synced yet`),
      ...(hasTried || targets.store.list().length === 0
        ? []
        : ['the schemas of preset targets have not been read yet']),
    ],
    async stop() {
      stopping.abort()
      await Promise.all([refreshing, ...reflectors.map((reflector) => reflector.stop())])
    },
  }
}

const notRead: Cause = {
  rule: 'preset-target',
  field: 'spec.kind',
  reason: 'FieldValueNotFound',
  message: 'its schema has not been read yet',
}

/** What a preset that was stored without the webhooks states may have any form. */
function targetIn({ spec }: ObjectPreset): string {
  const target: unknown = isRecord(spec) ? spec['target'] : undefined
  const { apiVersion, kind } = isRecord(target) ? target : {}
  return targetText({ apiVersion: String(apiVersion), kind: String(kind) })
}

/** The size limit of a preset covers only its spec, and users write its metadata. */
export const readObjectPresets = (of: Resource<ObjectPreset>): Resource<ObjectPreset> =>
  resource({
    ...of,
    read: {
      '*': true,
      metadata: {
        ...identity,
        generation: true,
        deletionTimestamp: true,
        annotations: { [authorAnnotation]: true },
      },
    },
  })

export const slimPreset = (preset: Persisted<ObjectPreset>): Persisted<ObjectPreset> => ({
  ...preset,
  metadata: {
    ...slimMetadata(preset.metadata, 'generation', 'deletionTimestamp'),
    ...slimAnnotations(preset.metadata, { [authorAnnotation]: longestAuthorBytes }),
  },
})
