import type { Capabilities } from '../api/capabilities.ts'
import type { MachineSpec } from '../api/machine.ts'
import type { NodeProfile } from '../api/node-profile.ts'
import { fits } from './fit.ts'
import { intersect } from './intersect.ts'

/** What the nodes of a cluster have said that they can do. */
export interface NodeCapabilities {
  readonly providedFor: (spec: MachineSpec) => Provided
  /** Each that is known, once; what counts where no node has said anything is the last. */
  readonly known: readonly Capabilities[]
  /** The same without the last, unless there is no other. */
  readonly published: readonly Capabilities[]
}

/** What one VM may count on. */
export interface Provided {
  /** What all nodes can do that it may come to. */
  readonly capabilities: Capabilities
  /** Those nodes, together where they can do the same; none where nobody has said what they can do. */
  readonly groups: readonly NodeGroup[]
}

export interface NodeGroup {
  readonly nodes: readonly string[]
  readonly capabilities: Capabilities
}

/** Placements for which the answer is kept; a cluster has a handful. */
const maxKept = 1000

/**
 * @param profiles as published; equal capabilities are to be the same object, so that they are compared by nothing else
 * @param fallback for VMs that fit no node that has said anything
 */
export function nodeCapabilities(profiles: readonly NodeProfile[], fallback: Capabilities): NodeCapabilities {
  const distinct = [...new Set(profiles.map(({ spec }) => spec.capabilities))]
  const kept = new Map<string, Provided>()
  return {
    known: [...distinct, fallback],
    published: distinct.length === 0 ? [fallback] : distinct,
    providedFor(spec) {
      if (profiles.length === 0) return { capabilities: fallback, groups: [] }
      const { nodeSelector, affinity, tolerations } = spec
      const isKvm = spec.domain.type === 'kvm'
      const key = JSON.stringify([isKvm, nodeSelector, affinity?.nodeAffinity, tolerations])
      const known = kept.get(key)
      if (known) return known
      const provided = provide(
        profiles.filter((profile) => fits(spec, profile)),
        isKvm,
        fallback,
      )
      if (kept.size >= maxKept) kept.clear()
      kept.set(key, provided)
      return provided
    },
  }
}

/** A VM of type kvm asks the scheduler for /dev/kvm: it comes to no node without, unless there is no other. */
function provide(fitting: readonly NodeProfile[], isKvm: boolean, fallback: Capabilities): Provided {
  const withKvm = isKvm ? fitting.filter(({ spec }) => spec.capabilities.accelerators.kvm !== undefined) : []
  const nodes = Map.groupBy(withKvm.length > 0 ? withKvm : fitting, ({ spec }) => spec.capabilities)
  const groups = [...nodes].map(([capabilities, of]) => ({
    capabilities,
    nodes: of.map(({ metadata }) => metadata.name ?? '').toSorted(),
  }))
  const [first, ...rest] = groups.map(({ capabilities }) => capabilities)
  return { capabilities: first === undefined ? fallback : intersect([first, ...rest]), groups }
}
