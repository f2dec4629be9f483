import { createHash } from 'node:crypto'
import type { Capabilities } from '../api/capabilities.ts'
import type { MachineSpec } from '../api/machine.ts'
import type { NodeProfile } from '../api/node-profile.ts'
import { bundledCapabilities } from './capabilities.ts'
import { fits } from './fit.ts'
import { intersect } from './intersect.ts'
import { outliersOf } from './outliers.ts'

/** What the nodes of a cluster have said that they can do. */
export interface NodeCapabilities {
  readonly providedFor: (spec: MachineSpec) => Provided
  /** Each that is known, the bundled one, which counts where no node has said anything, last. */
  readonly known: readonly Capabilities[]
  /** The same without the bundled one, unless there is no other. */
  readonly published: readonly Capabilities[]
  /** How many nodes have published a profile, and which of them are outliers among all. */
  readonly census: () => { readonly nodes: number; readonly outliers: readonly string[] }
}

/** What one VM may count on. */
export interface Provided {
  /** What all nodes can do that it may come to, but for outliers. */
  readonly capabilities: Capabilities
  /** Those nodes, together where they can do the same; none where nobody has said what they can do. */
  readonly groups: readonly NodeGroup[]
  /** Nodes that the VM may come to as well, but which do not count since they lack what nearly all others have. */
  readonly outliers: readonly NodeGroup[]
}

export interface NodeGroup {
  readonly nodes: readonly string[]
  readonly capabilities: Capabilities
}

/** Placements for which the answer is kept; a cluster has a handful. */
const maxKept = 1000

/**
 * What nodes with these profiles can do. Completions are kept as long as this is the same object: make it once for each change.
 * @param profiles as published; equal capabilities are to be the same object, so that they are compared by nothing else
 */
export function nodeCapabilities(profiles: readonly NodeProfile[]): NodeCapabilities {
  const distinct = [...new Set(profiles.map(({ spec }) => spec.capabilities))]
  const kept = new Map<string, Provided>()
  return {
    known: [...distinct, bundledCapabilities],
    published: distinct.length === 0 ? [bundledCapabilities] : distinct,
    census: () => ({
      nodes: profiles.length,
      outliers: provide(profiles, false).outliers.flatMap(({ nodes }) => nodes),
    }),
    providedFor(spec) {
      if (profiles.length === 0) return { capabilities: bundledCapabilities, groups: [], outliers: [] }
      const { nodeSelector, affinity, tolerations } = spec
      const isKvm = spec.domain.type === 'kvm'
      const key = JSON.stringify([isKvm, nodeSelector, affinity?.nodeAffinity, tolerations])
      const known = kept.get(key)
      if (known) return known
      const provided = provide(
        profiles.filter((profile) => fits(spec, profile)),
        isKvm,
      )
      if (kept.size >= maxKept) kept.clear()
      kept.set(key, provided)
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

/** Makes equal capabilities one object: nodes of one kind have the same, and each takes hundreds of kilobytes. */
export function shareCapabilities(): <T extends NodeProfile>(profile: T) => T {
  const shared = new Map<string, WeakRef<Capabilities>>()
  return (profile) => {
    const { capabilities } = profile.spec
    const key = createHash('sha256').update(JSON.stringify(capabilities)).digest('base64')
    const known = shared.get(key)?.deref()
    if (known === undefined) shared.set(key, new WeakRef(capabilities))
    return known === undefined ? profile : { ...profile, spec: { ...profile.spec, capabilities: known } }
  }
}

/** A VM of type kvm asks the scheduler for /dev/kvm: it comes to no node without, unless there is no other. */
function provide(fitting: readonly NodeProfile[], isKvm: boolean): Provided {
  const withKvm = isKvm ? fitting.filter(({ spec }) => spec.capabilities.accelerators.kvm !== undefined) : []
  const nodes = Map.groupBy(withKvm.length > 0 ? withKvm : fitting, ({ spec }) => spec.capabilities)
  const groups = [...nodes].map(([capabilities, of]) => ({
    capabilities,
    nodes: of.map(({ metadata }) => metadata.name ?? '').toSorted(),
  }))
  const outliers = outliersOf(groups)
  const counted = groups.filter((group) => !outliers.includes(group))
  const [first, ...rest] = counted.map(({ capabilities }) => capabilities)
  const capabilities = first === undefined ? bundledCapabilities : intersect([first, ...rest])
  return { capabilities, groups: counted, outliers }
}
