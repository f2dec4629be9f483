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
import type { Reflector } from '../runtime/reflector.ts'
import {
  clusterVirtualMachinePresets,
  keyOf,
  namespaces,
  nodeProfiles,
  virtualMachinePresets,
} from '../runtime/resource.ts'
import type { KubeObject, Persisted } from '../runtime/resource.ts'
import type { Change } from '../runtime/store.ts'
import { createArrivals } from './arrivals.ts'
import type { Arrivals } from './arrivals.ts'
import { limitRanges, resourceQuotas } from './budget.ts'
import type { Budget } from './budget.ts'
import { watchMachines } from './machines.ts'
import type { Machines } from './machines.ts'

/** What completion must know of the cluster; a review asks the API server for nothing. */
export interface EngineCaches {
  readonly candidates: Candidates
  /** Presets that take part in nothing since they are broken, by id. */
  readonly quarantined: ReadonlyMap<string, QuarantinedPreset>
  readonly arrivals: Arrivals
  readonly machines: Machines
  /** What a namespace allows its pods. */
  budget(namespace: string): Budget
  namespace(name: string): Namespace
  /** What the nodes can do, as they have published it. */
  capabilities(): NodeCapabilities
  /** Milliseconds since the API server was last heard of, by the cache for which it is longest. */
  ageMs(): number
}

export interface Caches extends EngineCaches {
  /** Why reviews cannot be answered yet, a sentence each. */
  unready(): string[]
  readonly reflectors: readonly Pick<Reflector<KubeObject>, 'ageMs' | 'statistics' | 'hasSynced' | 'synced'>[]
  stop(): Promise<void>
}

export function startCaches(kube: KubeClient, log: Logger, clock: Clock): Caches {
  const candidates = createCandidates()
  const quarantined = new Map<string, QuarantinedPreset>()
  const arrivals = createArrivals(clock)
  const presetReflectors = [virtualMachinePresets, clusterVirtualMachinePresets].map((resource) =>
    startReflector({ kube, resource, log, clock }),
  )
  const namespaceReflector = startReflector({ kube, resource: namespaces, log, clock, transform: withoutAnnotations })
  const { machines, reflector: machineReflector } = watchMachines(kube, log, clock)
  const indexers = { namespace: ({ metadata: { namespace = '' } }: KubeObject) => [namespace] }
  const ranges = startReflector({ kube, resource: limitRanges, log, clock, indexers })
  const quotas = startReflector({ kube, resource: resourceQuotas, log, clock, indexers })
  const profiles = startReflector({ kube, resource: nodeProfiles, log, clock, transform: shareCapabilities() })
  let capabilities: NodeCapabilities | undefined
  profiles.onChange(() => {
    capabilities = undefined
  })
  const reflectors = [...presetReflectors, namespaceReflector, machineReflector, ranges, quotas, profiles]
  for (const reflector of presetReflectors) {
    reflector.onChange((change) => {
      applyChange(change, candidates, quarantined, log)
      arrivals.arrived(keyOf(change.object.metadata))
    })
  }
  return {
    candidates,
    quarantined,
    arrivals,
    machines,
    budget: (name) => ({
      ranges: ranges.store.byIndex('namespace', name),
      quotas: quotas.store.byIndex('namespace', name),
    }),
    namespace: (name) => namespaceOf(name, namespaceReflector.store.get(name)),
    capabilities: () => (capabilities ??= nodeCapabilities(profiles.store.list())),
    unready: () =>
      reflectors
        .filter((reflector) => !reflector.hasSynced())
        .map((reflector) => `the cache of ${reflector.statistics().resource} is not filled yet`),
    ageMs: () => Math.max(...reflectors.map((reflector) => reflector.ageMs())),
    reflectors,
    async stop() {
      await Promise.all(reflectors.map((reflector) => reflector.stop()))
    },
  }
}

/** A namespace is in the cache a moment after it is made; until then its name is all that is known. */
function namespaceOf(name: string, cached: Persisted<KubeObject> | undefined): Namespace {
  return { name, labels: cached?.metadata.labels ?? { 'kubernetes.io/metadata.name': name } }
}

function applyChange(
  change: Change<Preset>,
  candidates: Candidates,
  quarantined: Map<string, QuarantinedPreset>,
  log: Logger,
): void {
  const id = keyOf(change.object.metadata)
  quarantined.delete(id)
  if (change.kind === 'deleted') return candidates.delete(id)
  const compiled = compilePreset(change.object)
  if ('preset' in compiled) return candidates.set(compiled.preset)
  candidates.delete(id)
  quarantined.set(id, compiled.quarantined)
  log.warn({ preset: id, causes: compiled.quarantined.causes }, 'a preset is broken and takes part in nothing')
}

function withoutAnnotations(namespace: Persisted<KubeObject>): Persisted<KubeObject> {
  const { annotations: _unread, ...metadata } = namespace.metadata
  return { ...namespace, metadata }
}
