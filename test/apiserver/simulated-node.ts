import type { VirtualMachine } from '../../api/virtual-machine.ts'
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
import { startFakeLauncher, type FakeLauncher } from '../fake-launcher.ts'
import { startWorkQueue } from '../../runtime/work-queue.ts'
import { accessAs, accountOf, kubernetesAccount } from './accounts.ts'
import type { TestApiServer } from './apiserver.ts'

const nodeName = 'n1'

export interface SimulatedNode {
  /** The current objects in this node's caches. */
  readonly vms: () => readonly Persisted<VirtualMachine>[]
  readonly pods: () => readonly Persisted<Pod>[]
  /** Called for each change of a VM or a pod. */
  onChange(handler: () => void): void
  stop(): Promise<void>
}

interface SimulatedNodeOptions {
  /** Runs launchers with guests below this kubelet's root, for a real handler, in place of a handler. */
  readonly kubeletRoot?: string
}

/**
 * Acts as scheduler, kubelet, handler and guest, as an admin: binds every pod to one node, reports every VM that is
 * assigned to it as running, and terminates every deleted pod.
 */
export async function startSimulatedNode(
  api: TestApiServer,
  { kubeletRoot }: SimulatedNodeOptions = {},
): Promise<SimulatedNode> {
  const log = createLogger({ process: 'node', level: 'silent' })
  const access = await kubeconfigAccess({ file: api.kubeconfig })
  const kube = createKubeClient({ access: accessAs(kubernetesAccount, access), userAgent: 'node' })
  const handler = createKubeClient({ access: accessAs(accountOf('handler'), access), userAgent: 'node' })
  const podCache = startReflector({ kube, resource: pods, log })
  const vmCache = startReflector({ kube, resource: virtualMachines, log })
  const launchers: FakeLauncher[] = []

  const startLauncher = async (root: string, podUID: string) => {
    const launcher = await startFakeLauncher(root, podUID)
    launcher.become({ domain: { name: 'vm', devices: { emulator: '/usr/bin/qemu-system-x86_64' } } })
    launchers.push(launcher)
  }

  const tendPod = async (key: string): Promise<void> => {
    const pod = podCache.store.get(key)
    if (pod === undefined) return
    const { uid, deletionTimestamp, name, namespace = '' } = pod.metadata
    if (deletionTimestamp !== undefined) {
      const ended = { metadata: { uid }, status: { phase: 'Succeeded' } }
      await kube.patch(pods, refOf(key), { type: 'merge', body: ended }, { subresource: 'status' })
      return kube.delete(pods, refOf(key), { uid, gracePeriodSeconds: 0 })
    }
    if (pod.spec.nodeName !== undefined) return
    if (kubeletRoot !== undefined) await startLauncher(kubeletRoot, uid)
    const target = { apiVersion: 'v1', kind: 'Node', name: nodeName }
    const binding = { apiVersion: 'v1', kind: 'Binding', metadata: { name }, target }
    await kube.request('POST', `${pathOf(pods, { namespace, name })}/binding`, binding)
  }
  const tendVm = async (key: string): Promise<void> => {
    const vm = vmCache.store.get(key)
    if (vm?.status?.phase !== 'Scheduled' || kubeletRoot !== undefined) return
    const { uid, resourceVersion } = vm.metadata
    const body = { metadata: { uid, resourceVersion }, status: { phase: 'Running' } }
    await handler.patch(virtualMachines, refOf(key), { type: 'merge', body }, { subresource: 'status' })
  }
  const concurrency = 8
  const podQueue = startWorkQueue({ reconcile: unlessOutdated(tendPod), concurrency, log, clock: systemClock })
  const vmQueue = startWorkQueue({ reconcile: unlessOutdated(tendVm), concurrency, log, clock: systemClock })
  podCache.onChange(({ object }) => podQueue.add(keyOf(object.metadata)))
  vmCache.onChange(({ object }) => vmQueue.add(keyOf(object.metadata)))
  await Promise.all([podCache.synced(), vmCache.synced()])
  return {
    vms: () => vmCache.store.list(),
    pods: () => podCache.store.list(),
    onChange(handler) {
      vmCache.onChange(handler)
      podCache.onChange(handler)
    },
    async stop() {
      await Promise.all([podQueue.drain(), vmQueue.drain()])
      await Promise.all(launchers.map((launcher) => launcher.close()))
      await Promise.all([podCache.stop(), vmCache.stop()])
      await Promise.all([kube.close(), handler.close()])
    },
  }
}
