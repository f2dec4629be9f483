import type { ObjectMeta } from '../api/object.ts'
import type { Rate } from '../runtime/bucket.ts'
import { identity, resource } from '../runtime/resource.ts'
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

/** A kubelet can write ten megabytes of JSON to the status of its Node. */
export const nodes = resource<Node>({
  group: '',
  version: 'v1',
  plural: 'nodes',
  kind: 'Node',
  namespaced: false,
  read: {
    apiVersion: true,
    kind: true,
    metadata: identity,
    status: { conditions: [64, { type: true, status: true }] },
  },
})

/**
 * As often as it likes: finding these parts of ten megabytes takes 30 ms. A kubelet reports every five minutes, and what
 * changes; of a thousand nodes, three a second.
 */
export const nodeEvents: Rate = { perSecond: 20, burst: 2000 }

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
