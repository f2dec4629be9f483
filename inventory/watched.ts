import { isDeepStrictEqual } from 'node:util'
import type { Capabilities } from '../api/capabilities.ts'
import { loggedCauses } from '../api/causes.ts'
import type { SessionEndpoint } from '../api/session-endpoint.ts'
import { isCurrent, resolveProfile, type NodeProfile, type PublishedProfile } from '../api/node-profile.ts'
import type { NodeCapabilitySet } from '../api/node-capability-set.ts'
import type { Preset } from '../api/preset.ts'
import { nodeCapabilities, shareCapabilities, type NodeCapabilities } from '../completion/nodes.ts'
import { createCandidates } from '../presets/candidates.ts'
import { compilePreset, type QuarantinedPreset } from '../presets/compile.ts'
import type { Rate } from '../runtime/bucket.ts'
import type { Clock } from '../runtime/clock.ts'
import type { KubeClient } from '../runtime/kube.ts'
import type { Logger } from '../runtime/log.ts'
import { startReflector, type Reflector } from '../runtime/reflector.ts'
import {
  clusterVirtualMachinePresets,
  identity,
  keyOf,
  namespaces,
  nodeCapabilitySets,
  nodeProfiles,
  resource,
  virtualMachinePresets,
  type KubeObject,
  type Persisted,
  type Resource,
} from '../runtime/resource.ts'
import { pick, slimMetadata } from '../runtime/slim.ts'
import type { Change } from '../runtime/store.ts'
import { capabilitiesOf, createUsable } from './capability-sets.ts'
import { isOther, unlabelledNamespace, type Inventory, type MacHolder } from './inventory.ts'
import { createNamespaceSizes } from './namespace-sizes.ts'
import { createSettled } from './settled.ts'

export interface WatchOptions {
  readonly kube: KubeClient
  readonly log: Logger
  readonly clock: Clock
  /** The first VM with a MAC address that `isWanted` accepts, of the caller's own cache of VMs. */
  readonly findWithMac: (address: string, isWanted: (holder: MacHolder) => boolean) => MacHolder | undefined
}

type CacheReflector = Pick<Reflector<KubeObject>, 'ageMs' | 'hasSynced' | 'onChange' | 'statistics' | 'stop' | 'synced'>

/** An inventory that watches the API server. It sends no request while a VM is completed. */
export interface WatchedInventory extends Inventory {
  /** Whether the watch has reported a namespace. Until then, `namespace` knows only its name. */
  hasNamespace(name: string): boolean
  /** Every preset of both kinds, as stored. */
  presets(): readonly Persisted<Preset>[]
  /** @param id `NAMESPACE/NAME`, or `NAME` for a cluster preset */
  preset(id: string): Persisted<Preset> | undefined
  /** Called for each change, including status updates; `isNewSpec` distinguishes them. */
  onPresetChange(listener: (id: string, isNewSpec: boolean) => void): void
  /**
   * Calls `listener` after each change of a preset's spec, of the labels of a namespace or of a node profile, with the
   * namespace whose VMs it concerns; undefined: all.
   */
  onChange(listener: (namespace: string | undefined) => void): void
  /** Every profile that is not being deleted, and every set that profiles can name, as stored. */
  profiles(): readonly Persisted<PublishedProfile>[]
  capabilitySets(): readonly Persisted<NodeCapabilitySet>[]
  /** Where the handler of a node serves sessions with its guests, if it does. */
  sessionEndpoint(node: string): SessionEndpoint | undefined
  hasSynced(): boolean
  synced(signal?: AbortSignal): Promise<void>
  readonly reflectors: readonly CacheReflector[]
  stop(): Promise<void>
}

export function watchInventory({ kube, log, clock, findWithMac }: WatchOptions): WatchedInventory {
  const candidates = createCandidates()
  const quarantined = new Map<string, QuarantinedPreset>()
  const presets = [virtualMachinePresets, clusterVirtualMachinePresets].map((of) =>
    startReflector({ kube, resource: readPresets(of), log, clock, slim: slimPreset }),
  )
  const sizes = createNamespaceSizes()
  const presetOf = (id: string) => presets.map(({ store }) => store.get(id)).find((preset) => preset !== undefined)
  const presetListeners: ((id: string, isNewSpec: boolean) => void)[] = []
  const put = (preset: Persisted<Preset>): void => {
    const id = keyOf(preset.metadata)
    const compiled = sizes.limit(preset, compilePreset(preset))
    if ('preset' in compiled) return candidates.set(compiled.preset)
    quarantined.set(id, compiled.quarantined)
    log.warn({ preset: id, causes: loggedCauses(compiled.quarantined.causes) }, 'a broken preset is quarantined')
  }
  const remove = (id: string): void => {
    sizes.remove(id)
    candidates.delete(id)
    quarantined.delete(id)
  }
  const applyPreset = (change: Change<Preset>): void => {
    if (!isNewSpec(change)) return
    const { metadata } = change.object
    remove(keyOf(metadata))
    if (change.kind !== 'deleted') put(change.object)
    for (const id of sizes.fitting(metadata.namespace)) {
      const preset = presetOf(id)
      remove(id)
      if (preset !== undefined) put(preset)
      for (const listener of presetListeners) listener(id, true)
    }
  }
  for (const reflector of presets) reflector.onChange(applyPreset)
  const namespaceReflector = startReflector({ kube, resource: namespaces, log, clock, slim: slimNamespace })
  const share = shareCapabilities()
  const profiles = startReflector({
    kube,
    resource: nodeProfiles,
    log,
    clock,
    slim: slimProfile(share),
    eventRate: profileEvents,
    indexers: { set: ({ spec }: PublishedProfile) => ('capabilitySetName' in spec ? [spec.capabilitySetName] : []) },
  })
  const sets = startReflector({ kube, resource: nodeCapabilitySets, log, clock, slim: slimSet(share) })
  const settled = createSettled(profileChanges, mostNodes, clock)
  /** The profiles that count. Each change of these costs a check of every VM that waits. */
  const counted = new Map<string, NodeProfile>()
  const listeners: ((namespace: string | undefined) => void)[] = []
  let capabilities: NodeCapabilities | undefined
  const isUsable = createUsable()
  const setOf = (name: string) => capabilitiesOf(sets.store.get(name))
  const count = (names: readonly string[]): void => {
    const changed = names.filter((name) => {
      const published = profiles.store.get(name)
      const profile = published && resolveProfile(published, setOf)
      const before = counted.get(name)
      const isCounted = profile !== undefined && isUsable(profile.spec.capabilities)
      if (isCounted) counted.set(name, profile)
      else counted.delete(name)
      if (profile !== undefined && !isCounted) log.warn({ node: name }, 'a node profile that is invalid is ignored')
      return !isSameProfile(before, counted.get(name))
    })
    if (changed.length === 0) return
    capabilities = undefined
    for (const listener of listeners) listener(undefined)
  }
  profiles.onChange(({ object: { metadata } }) => settled.change(metadata.name, () => count([metadata.name])))
  // The two watches have no common order: a profile may come before the set that it names.
  sets.onChange(({ object: { metadata } }) =>
    count(profiles.store.byIndex('set', metadata.name).map((profile) => profile.metadata.name)),
  )
  const reflectors = [...presets, namespaceReflector, profiles, sets]
  return {
    candidates,
    quarantined,
    // A new namespace reaches the cache with a short delay.
    namespace(name) {
      const labels = namespaceReflector.store.get(name)?.metadata.labels
      return labels === undefined ? unlabelledNamespace(name) : { name, labels }
    },
    hasNamespace: (name) => namespaceReflector.store.get(name) !== undefined,
    capabilities: () => (capabilities ??= nodeCapabilities([...counted.values()])),
    isMacTaken: (address, vm) => findWithMac(address, (holder) => isOther(holder, vm)) !== undefined,
    presets: () => presets.flatMap(({ store }) => store.list()),
    preset: presetOf,
    onPresetChange(listener) {
      presetListeners.push(listener)
      for (const reflector of presets)
        reflector.onChange((change) => listener(keyOf(change.object.metadata), isNewSpec(change)))
    },
    onChange(listener) {
      for (const reflector of presets)
        reflector.onChange((change) => {
          if (isNewSpec(change)) listener(change.object.metadata.namespace)
        })
      namespaceReflector.onChange((change) => {
        if (isRelabelled(change)) listener(change.object.metadata.name)
      })
      listeners.push(listener)
    },
    profiles: () => profiles.store.list().filter(isCurrent),
    capabilitySets: () => sets.store.list(),
    sessionEndpoint(node) {
      const profile = profiles.store.get(node)
      return profile && isCurrent(profile) ? profile.spec.sessionEndpoint : undefined
    },
    hasSynced: () => reflectors.every((reflector) => reflector.hasSynced()),
    async synced(signal) {
      await Promise.all(reflectors.map((reflector) => reflector.synced(signal)))
    },
    reflectors,
    async stop() {
      settled.stop()
      await Promise.all(reflectors.map((reflector) => reflector.stop()))
    },
  }
}

/**
 * A node can publish its profile as often as it likes, of a megabyte if it is hostile. Reading one takes 10 to 20 ms; a
 * handler publishes a new one after a change of the node or of its image. After an upgrade, all handlers do.
 */
const profileEvents: Rate = { perSecond: 10, burst: 1000 }
const profileChanges: Rate = { perSecond: 1 / 60, burst: 10 }
/** Of more nodes, those that change seldom are forgotten, and can change at once. */
const mostNodes = 10_000

/** Whether VMs are completed for both alike. A profile that names the set with its own capabilities stays the same. */
const isSameProfile = (one: NodeProfile | undefined, other: NodeProfile | undefined): boolean =>
  isDeepStrictEqual(one?.spec, other?.spec) && isDeepStrictEqual(one?.metadata.labels, other?.metadata.labels)

/** The API server increments the generation when the spec changes, not when the status does. */
const isNewSpec = (change: Change<Preset>): boolean =>
  change.kind !== 'updated' ||
  change.object.metadata.generation === undefined ||
  change.object.metadata.generation !== change.previous.metadata.generation

const isRelabelled = (change: Change<KubeObject>): boolean =>
  change.kind !== 'updated' || !isDeepStrictEqual(change.object.metadata.labels, change.previous.metadata.labels)

/** The size limit of a preset covers only its spec, and users write its metadata. */
export const readPresets = (of: Resource<Preset>): Resource<Preset> =>
  resource({ ...of, read: { '*': true, metadata: { ...identity, generation: true, deletionTimestamp: true } } })

export const slimPreset = (preset: Persisted<Preset>): Persisted<Preset> => ({
  ...preset,
  metadata: slimMetadata(preset.metadata, 'generation', 'deletionTimestamp'),
})

const slimNamespace = ({ metadata }: Persisted<KubeObject>): Persisted<KubeObject> => ({
  metadata: slimMetadata(metadata, 'labels'),
})

type Share = (capabilities: Capabilities) => Capabilities

const slimProfile =
  (share: Share) =>
  (profile: Persisted<PublishedProfile>): Persisted<PublishedProfile> => {
    const { spec } = profile
    const slim = {
      ...pick(profile, 'apiVersion', 'kind'),
      metadata: slimMetadata(profile.metadata, 'labels', 'deletionTimestamp'),
    }
    return 'capabilities' in spec
      ? { ...slim, spec: { ...spec, capabilities: share(spec.capabilities) } }
      : { ...slim, spec }
  }

const slimSet =
  (share: Share) =>
  ({ metadata, spec, ...set }: Persisted<NodeCapabilitySet>): Persisted<NodeCapabilitySet> => ({
    ...pick(set, 'apiVersion', 'kind'),
    metadata: slimMetadata(metadata),
    spec: { ...spec, capabilities: share(spec.capabilities) },
  })
