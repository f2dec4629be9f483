import { isRecord } from '../api/schema.ts'
import { noNodes, type NodeCapabilities } from '../completion/nodes.ts'
import { createCandidates, type Candidates } from '../presets/candidates.ts'
import { compilePreset, isClusterPreset, type CompiledPreset, type QuarantinedPreset } from '../presets/compile.ts'
import type { Labels } from '../presets/selector.ts'
import { emptyInventory, type Inventory } from './inventory.ts'

/** A parsed YAML or JSON object that should be a Kubernetes object. */
export type Manifest = { readonly [key: string]: unknown }

const presetKinds: readonly unknown[] = ['VirtualMachinePreset', 'ClusterVirtualMachinePreset']

export const isPreset = (manifest: Manifest): boolean => presetKinds.includes(manifest['kind'])

/** Whether a manifest is a preset for objects of other kinds than virtset's. */
export const isObjectPreset = ({ kind }: Manifest): boolean => kind === 'ObjectPreset' || kind === 'ClusterObjectPreset'

export interface Presets {
  readonly compiled: ReadonlyMap<string, CompiledPreset>
  readonly candidates: Candidates
  readonly quarantined: ReadonlyMap<string, QuarantinedPreset>
}

/**
 * Compiles the presets among some manifests. A later manifest replaces an earlier one of the same name.
 * @param namespace of presets without one
 */
export function presetsOf(manifests: Iterable<Manifest>, namespace: string): Presets {
  const compiled = new Map<string, CompiledPreset>()
  const quarantined = new Map<string, QuarantinedPreset>()
  for (const manifest of manifests) {
    if (!isPreset(manifest)) continue
    const one = compilePreset(inNamespace(manifest, namespace))
    if ('preset' in one) {
      compiled.set(one.preset.id, one.preset)
      quarantined.delete(one.preset.id)
    } else {
      compiled.delete(one.quarantined.id)
      quarantined.set(one.quarantined.id, one.quarantined)
    }
  }
  return { compiled, candidates: createCandidates(compiled.values()), quarantined }
}

/** An inventory without a cluster. Every namespace has the given labels and the label for its name. */
export const inventoryOf = (
  { candidates, quarantined }: Pick<Presets, 'candidates' | 'quarantined'>,
  { labels = {}, capabilities = noNodes }: { readonly labels?: Labels; readonly capabilities?: NodeCapabilities } = {},
): Inventory => ({
  ...emptyInventory(),
  candidates,
  quarantined,
  namespace: (name) => ({ name, labels: { ...labels, 'kubernetes.io/metadata.name': name } }),
  capabilities: () => capabilities,
})

/** Puts a manifest in `namespace`, unless it has its own or its kind is cluster-scoped. */
export function inNamespace(manifest: Manifest, namespace: string): Manifest {
  const metadata = isRecord(manifest['metadata']) ? manifest['metadata'] : {}
  const isClusterScoped = isClusterPreset(manifest['kind'])
  return isClusterScoped || typeof metadata['namespace'] === 'string'
    ? manifest
    : { ...manifest, metadata: { ...metadata, namespace } }
}
