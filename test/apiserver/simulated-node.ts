import type { VirtualMachine } from '../../api/machine.ts'
import { pods } from '../../controller/pod.ts'
import type { Pod } from '../../controller/pod.ts'
import { kubeconfigAccess } from '../../runtime/access.ts'
import { unlessOutdated } from '../../runtime/api-error.ts'
import { systemClock } from '../../runtime/clock.ts'
import { createKubeClient } from '../../runtime/kube.ts'
import { createLogger } from '../../runtime/log.ts'
import { startReflector } from '../../runtime/reflector.ts'
import { keyOf, pathOf, refOf, virtualMachines } from '../../runtime/resource.ts'
import type { Persisted } from '../../runtime/resource.ts'
import { startWorkQueue } from '../../runtime/work-queue.ts'
import type { TestApiServer } from './apiserver.ts'

const nodeName = 'n1'

export interface SimulatedNode {
  /** What there is now, as this node's caches have it. */
  readonly machines: () => readonly Persisted<VirtualMachine>[]
  readonly pods: () => readonly Persisted<Pod>[]
  /** Calls back with each change of a VM or a pod. */
  onChange(handler: () => void): void
  stop(): Promise<void>
}

/**
 * What scheduler, kubelet, handler and guest do, as an admin who is none of virtset's accounts: every pod is bound to one node, every VM that is handed over runs, and
 * every pod that is to end has ended.
 */
export async function startSimulatedNode(api: TestApiServer): Promise<SimulatedNode> {
  const log = createLogger({ process: 'node', level: 'silent' })
  const kube = createKubeClient({ access: await kubeconfigAccess({ file: api.kubeconfig }), userAgent: 'node' })
  const podCache = startReflector({ kube, resource: pods, log })
  const machineCache = startReflector({ kube, resource: virtualMachines, log })

  const tendPod = async (key: string): Promise<void> => {
    const pod = podCache.store.get(key)
    if (pod === undefined) return
    const { uid, deletionTimestamp, name, namespace = '' } = pod.metadata
    if (deletionTimestamp !== undefined) return kube.delete(pods, refOf(key), { uid, gracePeriodSeconds: 0 })
    if (pod.spec.nodeName !== undefined) return
    const target = { apiVersion: 'v1', kind: 'Node', name: nodeName }
    const binding = { apiVersion: 'v1', kind: 'Binding', metadata: { name }, target }
    await kube.request('POST', `${pathOf(pods, { namespace, name })}/binding`, binding)
  }
  const tendMachine = async (key: string): Promise<void> => {
    const machine = machineCache.store.get(key)
    if (machine?.status?.phase !== 'Scheduled') return
    const { uid, resourceVersion } = machine.metadata
    const body = { metadata: { uid, resourceVersion }, status: { phase: 'Running' } }
    await kube.patch(virtualMachines, refOf(key), { type: 'merge', body }, { subresource: 'status' })
  }
  const concurrency = 8
  const podQueue = startWorkQueue({ reconcile: unlessOutdated(tendPod), concurrency, log, clock: systemClock })
  const machineQueue = startWorkQueue({ reconcile: unlessOutdated(tendMachine), concurrency, log, clock: systemClock })
  podCache.onChange(({ object }) => podQueue.add(keyOf(object.metadata)))
  machineCache.onChange(({ object }) => machineQueue.add(keyOf(object.metadata)))
  await Promise.all([podCache.synced(), machineCache.synced()])
  return {
    machines: () => machineCache.store.list(),
    pods: () => podCache.store.list(),
    onChange(handler) {
      machineCache.onChange(handler)
      podCache.onChange(handler)
    },
    async stop() {
      await Promise.all([podQueue.drain(), machineQueue.drain()])
      await Promise.all([podCache.stop(), machineCache.stop()])
      await kube.close()
    },
  }
}
