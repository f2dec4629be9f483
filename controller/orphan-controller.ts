import type { VirtualMachine } from '../api/virtual-machine.ts'
import { unlessNotFound } from '../runtime/api-error.ts'
import { pageSize, readEach } from '../runtime/pages.ts'
import type { Reflector } from '../runtime/reflector.ts'
import { keyOf, refOf, virtualMachines } from '../runtime/resource.ts'
import type { Persisted } from '../runtime/resource.ts'
import type { WorkQueueStatistics } from '../runtime/work-queue.ts'
import { createLoop } from './loop.ts'
import type { ControllerContext } from './loop.ts'
import { vmUidOf } from './own-pod.ts'
import { pods } from './pod.ts'
import type { Pod } from './pod.ts'
import { readPods } from './slim-pod.ts'

interface OrphanControllerOptions extends ControllerContext {
  readonly vms: Reflector<VirtualMachine, 'uid'>
  readonly pods: Reflector<Pod, 'vm'>
}

/**
 * Deletes launcher pods whose VM does not exist: the VM's finalizer was removed by hand, or the pod comes from a
 * backup. The garbage collector deletes only those that still have their owner reference.
 */
interface OrphanController {
  lead(): Promise<void>
  statistics(): WorkQueueStatistics | undefined
  stop(): Promise<void>
}

/** Pods and VMs come through two watches, and one may lag: a pod often outlives its VM in the cache by a moment. */
const settleMs = 5000
const concurrency = 1

export function startOrphanController(options: OrphanControllerOptions): OrphanController {
  const { kube, vms, pods: podCache } = options
  const hasVm = (pod: Pod) =>
    vms.store.byIndex('uid', vmUidOf(pod) ?? '').some(({ metadata }) => metadata.namespace === pod.metadata.namespace)

  podCache.onChange(({ kind, object }) => {
    if (kind !== 'deleted' && !hasVm(object)) loop.addAfter(keyOf(object.metadata), settleMs)
  })
  vms.onChange(({ kind, object }) => {
    if (kind !== 'deleted') return
    for (const pod of podCache.store.byIndex('vm', object.metadata.uid)) loop.addAfter(keyOf(pod.metadata), settleMs)
  })

  const reconcile = async (key: string): Promise<void> => {
    const cached = podCache.store.get(key)
    if (cached === undefined || hasVm(cached)) return
    const vmUid = vmUidOf(cached)
    if (vmUid === undefined) return
    const pod = await unlessNotFound(kube.get(readPods, refOf(key)))
    if (pod?.metadata.uid !== cached.metadata.uid || pod.metadata.deletionTimestamp !== undefined) return
    if (await exists(pod, vmUid)) return
    loop.assertLeading()
    const message = `The VirtualMachine ${vmUid} does not exist; the controller deletes its launcher pod`
    loop.recordEvent({ resource: pods, object: pod }, 'Warning', 'OrphanedLauncherPod', message)
    await kube.delete(pods, refOf(key), { uid: pod.metadata.uid })
  }

  /** Reads the VMs of the namespace from the API server: the cache might not have one that was just created. */
  const exists = async ({ metadata }: Persisted<Pod>, vmUid: string): Promise<boolean> => {
    const { namespace } = metadata
    const scope = { limit: pageSize, ...(namespace === undefined ? {} : { namespace }) }
    let isFound = false
    await readEach(kube, virtualMachines, scope, (vm) => {
      isFound ||= vm.metadata.uid === vmUid
    })
    return isFound
  }

  const loop = createLoop<Pod>({
    ...options,
    reconcile,
    keys: () =>
      podCache.store
        .list()
        .filter((pod) => !hasVm(pod))
        .map(({ metadata }) => keyOf(metadata)),
    caches: [vms, podCache],
    concurrency,
  })
  return { lead: () => loop.lead(), statistics: () => loop.statistics(), stop: () => loop.stop() }
}
