import type { Preset } from '../api/preset.ts'
import { nodeCapabilities, shareCapabilities } from '../completion/nodes.ts'
import type { NodeCapabilities } from '../completion/nodes.ts'
import { compilePreset } from '../presets/compile.ts'
import type { QuarantinedPreset } from '../presets/compile.ts'
import { createCandidates } from '../presets/candidates.ts'
import type { Candidates, Namespace } from '../presets/candidates.ts'
import type { Clock } from '../runtime/clock.ts'
import type { KubeClient } from '../runtime/kube.ts'
import type { Logger } from '../runtime/log.ts'
import { startReflector } from '../runtime/reflector.ts'
import type { ReflectorStatistics } from '../runtime/reflector.ts'
import {
  clusterVirtualMachinePresets,
  keyOf,
  namespaces,
  nodeProfiles,
  virtualMachinePresets,
} from '../runtime/resource.ts'
import type { KubeObject, Persisted } from '../runtime/resource.ts'
import type { Change } from '../runtime/store.ts'

/** What completion must know of the cluster. */
export interface Caches {
  readonly candidates: Candidates
  /** Presets that take part in nothing since they are broken, by id. */
  readonly quarantined: ReadonlyMap<string, QuarantinedPreset>
  namespace(name: string): Namespace
  /** What the nodes can do, as they have published it. */
  capabilities(): NodeCapabilities
  /** Every preset of both kinds, as stored. */
  presets(): readonly Persisted<Preset>[]
  /** By id: `NAMESPACE/NAME`, or `NAME` of a cluster preset. */
  preset(id: string): Persisted<Preset> | undefined
  onPresetChange(listener: (id: string) => void): void
  hasSynced(): boolean
  synced(): Promise<void>
  /** Calls `listener` after each change of a preset, a namespace or of what a node can do. */
  onChange(listener: () => void): void
  readonly reflectors: readonly { ageMs(): number; statistics(): ReflectorStatistics }[]
  stop(): Promise<void>
}

export function startCaches(kube: KubeClient, log: Logger, clock: Clock): Caches {
  const candidates = createCandidates()
  const quarantined = new Map<string, QuarantinedPreset>()
  const presets = [virtualMachinePresets, clusterVirtualMachinePresets].map((resource) =>
    startReflector({ kube, resource, log, clock }),
  )
  const namespaceCache = startReflector({ kube, resource: namespaces, log, clock, transform: withoutAnnotations })
  for (const cache of presets) cache.onChange((change) => apply(change, candidates, quarantined))
  const profiles = startReflector({ kube, resource: nodeProfiles, log, clock, transform: shareCapabilities() })
  let capabilities: NodeCapabilities | undefined
  profiles.onChange(() => {
    capabilities = undefined
  })
  const reflectors = [...presets, namespaceCache, profiles]
  return {
    candidates,
    quarantined,
    reflectors,
    namespace: (name) => ({
      name,
      labels: namespaceCache.store.get(name)?.metadata.labels ?? { 'kubernetes.io/metadata.name': name },
    }),
    capabilities: () => (capabilities ??= nodeCapabilities(profiles.store.list())),
    presets: () => presets.flatMap(({ store }) => store.list()),
    preset: (id) => presets.map(({ store }) => store.get(id)).find((preset) => preset !== undefined),
    onPresetChange(listener) {
      for (const cache of presets) cache.onChange(({ object }) => listener(keyOf(object.metadata)))
    },
    hasSynced: () => reflectors.every((reflector) => reflector.hasSynced()),
    async synced() {
      await Promise.all(reflectors.map((reflector) => reflector.synced()))
    },
    onChange(listener) {
      for (const reflector of reflectors) reflector.onChange(listener)
    },
    async stop() {
      await Promise.all(reflectors.map((reflector) => reflector.stop()))
    },
  }
}

function apply(change: Change<Preset>, candidates: Candidates, quarantined: Map<string, QuarantinedPreset>): void {
  const id = keyOf(change.object.metadata)
  quarantined.delete(id)
  if (change.kind === 'deleted') return candidates.delete(id)
  const compiled = compilePreset(change.object)
  if ('preset' in compiled) return candidates.set(compiled.preset)
  candidates.delete(id)
  quarantined.set(id, compiled.quarantined)
}

function withoutAnnotations(namespace: Persisted<KubeObject>): Persisted<KubeObject> {
  const { annotations: _unread, ...metadata } = namespace.metadata
  return { ...namespace, metadata }
}
