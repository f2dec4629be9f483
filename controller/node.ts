import type { ObjectMeta } from '../api/object.ts'
import { resource } from '../runtime/resource.ts'
import type { Persisted } from '../runtime/resource.ts'
import type { PodCondition } from './pod.ts'

/** The part of Kubernetes' Node that we read. */
export interface Node {
  readonly apiVersion?: string
  readonly kind?: string
  readonly metadata: ObjectMeta
  readonly status?: { readonly conditions?: readonly PodCondition[] }
}

export const nodes = resource<Node>({ group: '', version: 'v1', plural: 'nodes', kind: 'Node', namespaced: false })

/** What is known of the node of a VM. */
export type NodeState = 'answers' | 'silent' | 'gone'

/** Kubernetes sets the condition to Unknown when the kubelet has not been heard of for 40 s; False is the kubelet's own word, so it answers. */
export function stateOf(node: Node | undefined): NodeState {
  if (node === undefined) return 'gone'
  return node.status?.conditions?.find(({ type }) => type === 'Ready')?.status === 'Unknown' ? 'silent' : 'answers'
}

/** A node has a megabyte of images and labels that nobody here reads. */
export function onlyReadiness(node: Persisted<Node>): Persisted<Node> {
  const { name, uid, resourceVersion } = node.metadata
  const conditions = (node.status?.conditions ?? [])
    .filter(({ type }) => type === 'Ready')
    .map(({ type, status }) => ({ type, status }))
  return { ...node, metadata: { name, uid, resourceVersion }, status: { conditions } }
}
