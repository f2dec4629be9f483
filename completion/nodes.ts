import { createHash } from 'node:crypto'
import { LRUCache } from 'lru-cache'
import type { Capabilities } from '../api/capabilities.ts'
import type { VirtualMachineSpec } from '../api/virtual-machine.ts'
import type { NodeProfile } from '../api/node-profile.ts'
import { bundledCapabilities, imageOf } from './capabilities.ts'
import { fitsOn } from './fit.ts'
import { intersect } from './intersect.ts'
import { countNodes, outliersOf, type NodeGroup } from './outliers.ts'

/** The capabilities that the nodes of a cluster have published. */
export interface NodeCapabilities {
  readonly providedFor: (spec: VirtualMachineSpec) => Provided
  /**
   * For each known image, the capabilities of one kind of node, ending with the bundled ones, which apply until a node
   * publishes its own. Defaults depend on nothing else.
   */
  readonly known: readonly Capabilities[]
  /** The same without the bundled ones, unless no node has published any. */
  readonly published: readonly Capabilities[]
  /** The number of nodes that have published a profile, and the outliers among them. */
  readonly census: () => { readonly nodes: number; readonly outliers: readonly string[] }
}

/** The capabilities that one VM can rely on. */
export interface Provided {
  /** The common capabilities of all nodes on which it can be scheduled, except outliers. */
  readonly capabilities: Capabilities
  /** These nodes, grouped by equal capabilities; empty if no node has published any. */
  readonly groups: readonly NodeGroup[]
  /**
   * Nodes on which it could be scheduled but which are ignored because they do not have something that nearly all
   * others of these, or of the cluster, have.
   */
  readonly outliers: readonly NodeGroup[]
}

/** The maximum number of cached placements. A cluster has a handful; each result can be as large as a node profile. */
const maxCached = 64

/**
 * Combines the profiles of nodes. Results are cached in the returned object, so create it once per change.
 * @param profiles as published; equal capabilities must be the same object, because they are compared by identity
 */
export function nodeCapabilities(profiles: readonly NodeProfile[]): NodeCapabilities {
  const distinct = [...new Set(profiles.map(({ spec }) => spec.capabilities))]
  const byPlace = new LRUCache<string, Provided>({ max: maxCached })
  // Users can write any number of placements that all mean the same nodes.
  const byNodes = new LRUCache<string, Provided>({ max: maxCached })
  // Most sets of nodes have nodes of every kind.
  const byKinds = new LRUCache<string, Capabilities>({ max: maxCached })
  const combined = (kinds: ReadonlySet<Capabilities>): Capabilities => {
    // In one order, whichever of its nodes a VM fits on.
    const [first, ...rest] = distinct.filter((kind) => kinds.has(kind))
    if (first === undefined) return bundledCapabilities
    const key = [first, ...rest].map((kind) => distinct.indexOf(kind)).join()
    const known = byKinds.get(key) ?? intersect([first, ...rest])
    byKinds.set(key, known)
    return known
  }
  let foundOutliers: readonly NodeGroup[] | undefined
  const ofCluster = () => (foundOutliers ??= outliersOf(groupsOf(profiles)))
  return {
    known: oneOfEach([...distinct, bundledCapabilities]),
    published: distinct.length === 0 ? [bundledCapabilities] : distinct,
    census: () => ({ nodes: profiles.length, outliers: ofCluster().flatMap(({ nodes }) => nodes) }),
    providedFor(spec) {
      if (profiles.length === 0) return { capabilities: bundledCapabilities, groups: [], outliers: [] }
      const { nodeSelector, affinity, tolerations } = spec
      const isKvm = spec.domain.type === 'kvm'
      // Users write these fields and they can be large, so the cache key is a digest.
      const required = affinity?.nodeAffinity?.requiredDuringSchedulingIgnoredDuringExecution
      const key = digest([isKvm, nodeSelector, required, tolerations])
      const known = byPlace.get(key)
      if (known) return known
      const fits = fitsOn(spec)
      const fitting = [...profiles.entries()].filter(([, profile]) => fits(profile))
      const nodes = digest([isKvm, fitting.map(([index]) => index)])
      const provided =
        byNodes.get(nodes) ??
        provide(
          fitting.map(([, profile]) => profile),
          isKvm,
          ofCluster(),
          combined,
        )
      byNodes.set(nodes, provided)
      byPlace.set(key, provided)
      return provided
    },
  }
}

/** For a cluster in which no node has published a profile. */
export const noNodes: NodeCapabilities = nodeCapabilities([])

/** For a cluster whose nodes all have the same capabilities. */
export const equalNodes = (capabilities: Capabilities): NodeCapabilities => ({
  known: [capabilities],
  published: [capabilities],
  census: () => ({ nodes: 0, outliers: [] }),
  providedFor: () => ({ capabilities, groups: [], outliers: [] }),
})

/**
 * Makes equal capabilities one object: nodes of one kind have the same, and each takes hundreds of kilobytes. Remembers
 * nothing of those that are no longer used, because a node can publish others again and again.
 */
export function shareCapabilities(): (capabilities: Capabilities) => Capabilities {
  const shared = new Map<string, WeakRef<Capabilities>>()
  const collected = new FinalizationRegistry<string>((key) => {
    // The same capabilities may have been published again since.
    if (shared.get(key)?.deref() === undefined) shared.delete(key)
  })
  return (capabilities) => {
    const key = digest(capabilities)
    const known = shared.get(key)?.deref()
    if (known !== undefined) return known
    shared.set(key, new WeakRef(capabilities))
    collected.register(capabilities, key)
    return capabilities
  }
}

const digest = (value: unknown): string => createHash('sha256').update(JSON.stringify(value)).digest('base64')

/**
 * A VM of type kvm requests /dev/kvm from the scheduler, so nodes without it are ignored, unless no node has it.
 * @param ofCluster outliers among all nodes, which can be too many of the fitting ones to be outliers among these. They
 *   count if they are most of the fitting ones: these may be the last that are updated.
 */
function provide(
  fitting: readonly NodeProfile[],
  isKvm: boolean,
  ofCluster: readonly NodeGroup[],
  combined: (kinds: ReadonlySet<Capabilities>) => Capabilities,
): Provided {
  const withKvm = isKvm ? fitting.filter(({ spec }) => spec.capabilities.accelerators.kvm !== undefined) : []
  const groups = groupsOf(withKvm.length > 0 ? withKvm : fitting)
  const known = new Set(ofCluster.map(({ capabilities }) => capabilities))
  const ofPlacement = outliersOf(groups)
  const all = groups.filter((group) => known.has(group.capabilities) || ofPlacement.includes(group))
  const outliers = 2 * countNodes(all) <= countNodes(groups) ? all : ofPlacement
  const counted = groups.filter((group) => !outliers.includes(group))
  const capabilities = combined(new Set(counted.map((group) => group.capabilities)))
  return { capabilities, groups: counted, outliers }
}

const groupsOf = (profiles: readonly NodeProfile[]): readonly NodeGroup[] =>
  [...Map.groupBy(profiles, ({ spec }) => spec.capabilities)].map(([capabilities, of]) => ({
    capabilities,
    nodes: of.map(({ metadata }) => metadata.name ?? '').toSorted(),
  }))

function oneOfEach(capabilities: readonly Capabilities[]): readonly Capabilities[] {
  return [...Map.groupBy(capabilities, imageOf).values()].flatMap((same) => same.slice(0, 1))
}
