import type { ObjectMeta } from '../api/object.ts'
import { resource } from '../runtime/resource.ts'
import type { Persisted } from '../runtime/resource.ts'
import { pick, slimMetadata } from '../runtime/slim.ts'
import type { PodCondition } from './pod.ts'

/** The part of Kubernetes' Node that we read. */
export interface Node {
  readonly apiVersion?: string
  readonly kind?: string
  readonly metadata: ObjectMeta
  readonly status?: { readonly conditions?: readonly PodCondition[] }
}

export const nodes = resource<Node>({ group: '', version: 'v1', plural: 'nodes', kind: 'Node', namespaced: false })

/**
 * The state of the node of a VM. `unready`: its kubelet reports that it cannot run pods, for example because the
 * container runtime does not respond, so it may not be able to end them either. `silent`: its kubelet does not report.
 */
export type NodeState = 'ready' | 'unready' | 'silent' | 'gone'

/** Kubernetes sets Ready to Unknown when the kubelet has not reported for 40 s; the kubelet itself sets False. */
export function stateOf(node: Node | undefined): NodeState {
  if (node === undefined) return 'gone'
  const ready = node.status?.conditions?.find(({ type }) => type === 'Ready')?.status
  if (ready === 'Unknown') return 'silent'
  return ready === 'True' ? 'ready' : 'unready'
}

/** Whether it responds, without the megabyte of images and labels that a Node can have. */
export function slimNode(node: Persisted<Node>): Persisted<Node> {
  const conditions = (node.status?.conditions ?? [])
    .filter(({ type }) => type === 'Ready')
    .map((condition) => pick(condition, 'type', 'status'))
  return { ...pick(node, 'apiVersion', 'kind'), metadata: slimMetadata(node.metadata), status: { conditions } }
}
