import type { Clock } from '../runtime/clock.ts'
import type { KubeClient } from '../runtime/kube.ts'
import type { Logger } from '../runtime/log.ts'
import { startReflector, type Reflector } from '../runtime/reflector.ts'
import { resource, type KubeObject, type Persisted } from '../runtime/resource.ts'
import { pick, slimMetadata } from '../runtime/slim.ts'
import { readProfileFile } from './socket.ts'

const pods = resource<KubeObject>({ group: '', version: 'v1', plural: 'pods', kind: 'Pod', namespaced: true })

/** Its manifests and policies name this namespace. */
const namespace = 'virtset-system'
const daemonSet = 'virtset-profile'

/** The pod on this node that queries libvirt. */
export interface ProfilePod {
  readonly pods: Reflector<KubeObject>
  /** Reads a file that the pod has written; undefined while there is none. */
  read(name: string, maxBytes: number): Promise<Buffer | undefined>
  stop(): Promise<void>
}

/**
 * Follows the pod of the DaemonSet `virtset-profile` on this node. Its UID comes from the API server, so that no other
 * pod can write in its place.
 */
export function followProfilePod(options: {
  readonly kube: KubeClient
  readonly nodeName: string
  readonly kubeletRoot: string
  readonly log: Logger
  readonly clock: Clock
}): ProfilePod {
  const { kube, nodeName, kubeletRoot, log, clock } = options
  const own = startReflector({
    kube,
    resource: pods,
    log,
    clock,
    namespace,
    labelSelector: 'app.kubernetes.io/component=profile',
    fieldSelector: `spec.nodeName=${nodeName}`,
    slim: slimPod,
  })
  return {
    pods: own,
    async read(name, maxBytes) {
      // During a rollout, the old pod goes before the new one comes.
      for (const { metadata } of own.store.list().filter(isOfDaemonSet)) {
        const found = await readProfileFile(kubeletRoot, metadata.uid, name, maxBytes)
        if (found !== undefined) return found
      }
      return undefined
    },
    stop: () => own.stop(),
  }
}

/** The label alone proves nothing: a VM in this namespace passes its labels to its launcher pod. */
const isOfDaemonSet = ({ metadata }: KubeObject): boolean =>
  metadata.deletionTimestamp === undefined &&
  metadata.ownerReferences?.some(
    ({ kind, name, controller }) => kind === 'DaemonSet' && name === daemonSet && controller === true,
  ) === true

const slimPod = (pod: Persisted<KubeObject>): Persisted<KubeObject> => ({
  ...pick(pod, 'apiVersion', 'kind'),
  metadata: slimMetadata(pod.metadata, 'ownerReferences', 'deletionTimestamp'),
})
