import type { NodeTerm } from '../api/affinity.ts'
import type { Pod } from './pod.ts'

/** Limits the size of the pod; with more unfit nodes, the cluster has another problem. */
const maxNodes = 100

/** The pod with a required node affinity that excludes these nodes, in addition to its own requirements. */
export function excludeNodes(pod: Pod, nodes: readonly string[]): Pod {
  if (nodes.length === 0) return pod
  const { affinity = {} } = pod.spec
  const { nodeAffinity = {} } = affinity
  const required = nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution?.nodeSelectorTerms ?? [{}]
  // The API takes one name in each requirement; terms are alternatives, so each of them needs all.
  const others = nodes
    .slice(0, maxNodes)
    .map((name) => ({ key: 'metadata.name', operator: 'NotIn' as const, values: [name] }))
  const nodeSelectorTerms = required.map((term: NodeTerm) => ({
    ...term,
    matchFields: [...(term.matchFields ?? []), ...others],
  }))
  const requiredDuringSchedulingIgnoredDuringExecution = { nodeSelectorTerms }
  return {
    ...pod,
    spec: {
      ...pod.spec,
      affinity: { ...affinity, nodeAffinity: { ...nodeAffinity, requiredDuringSchedulingIgnoredDuringExecution } },
    },
  }
}
