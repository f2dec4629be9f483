import { chownSync, mkdirSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { run } from '../../cluster/command.ts'
import type { Volume } from '../../api/volume.ts'
import type { VirtualMachine } from '../../api/virtual-machine.ts'
import { podName } from '../../controller/launcher-pod.ts'
import { persistentVolumeClaims, pods } from '../../controller/pod.ts'
import type { KubeClient } from '../../runtime/kube.ts'
import { namespaces, resource, virtualMachines } from '../../runtime/resource.ts'
import type { KubeObject, Persisted, Resource } from '../../runtime/resource.ts'

const persistentVolumes = resource<KubeObject>({
  group: '',
  version: 'v1',
  plural: 'persistentvolumes',
  kind: 'PersistentVolume',
  namespaced: false,
})
interface Node extends KubeObject {
  readonly status: { readonly images?: readonly { readonly names?: readonly string[] }[] }
}
const nodes = resource<Node>({ group: '', version: 'v1', plural: 'nodes', kind: 'Node', namespaced: false })
/** The UID of every process in a VM's pod. */
const launcherUser = 107
const capacity = '1Gi'

export interface Started {
  readonly vm: Persisted<VirtualMachine>
  /** From its creation until it is Running, and until the agent of its guest responds. */
  readonly runningMs: number
  readonly bootedMs: number
}

/** A namespace with Linux guests, and directories of this host as persistent volumes. */
export interface Vms {
  /** On this host, for everything that the benchmark writes. */
  readonly directory: string
  start(name: string, volumes: readonly Volume[]): Promise<Started>
  remove(name: string): Promise<void>
  /** The name of an image whose disk no Linux takes for its own. */
  demoImage(): Promise<string>
  /** A claim for an empty directory; returns that. */
  claimDirectory(name: string): Promise<string>
  /** A claim for a block device of which `file` is the content; returns the device. */
  claimDevice(name: string, file: string): Promise<string>
  /** Lets go of the CPU time that the pod of a VM requests, which a small node has not for all. */
  releaseCpu(vm: Persisted<VirtualMachine>): Promise<void>
  close(): Promise<void>
}

export async function openVms(kube: KubeClient, namespace: string, state: string): Promise<Vms> {
  const directory = join(state, namespace)
  const volumes: string[] = []
  const loops: string[] = []
  await kube.create(namespaces, { apiVersion: 'v1', kind: 'Namespace', metadata: { name: namespace } })
  mkdirSync(directory)

  const ownDirectory = (name: string): string => {
    const path = join(directory, name)
    mkdirSync(path)
    chownSync(path, launcherUser, launcherUser)
    return path
  }
  const claim = async (name: string, volumeMode: 'Filesystem' | 'Block', source: object): Promise<void> => {
    const volumeName = `${namespace}-${name}`
    const common = { volumeMode, accessModes: ['ReadWriteOnce'], storageClassName: '' }
    const volume = {
      apiVersion: 'v1',
      kind: 'PersistentVolume',
      metadata: { name: volumeName },
      spec: {
        ...common,
        ...source,
        capacity: { storage: capacity },
        persistentVolumeReclaimPolicy: 'Retain',
        claimRef: { namespace, name },
      },
    }
    volumes.push(volumeName)
    await kube.create(persistentVolumes, volume)
    await kube.create(persistentVolumeClaims, {
      apiVersion: 'v1',
      kind: 'PersistentVolumeClaim',
      metadata: { name, namespace },
      spec: { ...common, volumeName, resources: { requests: { storage: capacity } } } as object,
    })
  }
  const gone = async <T extends KubeObject>(of: Resource<T>, name: string): Promise<void> => {
    while ((await kube.list(of, { namespace })).items.some(({ metadata }) => metadata.name === name)) await sleep(50)
  }

  return {
    directory,
    start: (name, list) => start(kube, linux(name, namespace, list)),
    async remove(name) {
      await kube.delete(virtualMachines, { namespace, name })
      await gone(virtualMachines, name)
    },
    async demoImage() {
      const names = (await kube.list(nodes)).items
        .flatMap(({ status }) => status.images ?? [])
        .flatMap((one) => one.names ?? [])
      // Without its digest.
      const found = names.find((one) => /\/demo-disk:[^@]+$/.test(one))
      if (found === undefined) throw new Error('no node has the image demo-disk: run `make up`')
      return found
    },
    async claimDirectory(name) {
      const path = ownDirectory(name)
      await claim(name, 'Filesystem', { hostPath: { path } })
      return path
    },
    async claimDevice(name, file) {
      const loop = (await run(['losetup', '--find', '--show', file])).trim()
      loops.push(loop)
      const { items } = await kube.list(nodes)
      const values = items.slice(0, 1).map(({ metadata }) => metadata.name)
      const matchExpressions = [{ key: 'kubernetes.io/hostname', operator: 'In', values }]
      const nodeAffinity = { required: { nodeSelectorTerms: [{ matchExpressions }] } }
      await claim(name, 'Block', { local: { path: loop }, nodeAffinity })
      return loop
    },
    async releaseCpu(vm) {
      const path = '/spec/containers/0/resources/requests/cpu'
      const body = [{ op: 'replace', path, value: '1m' }]
      const ref = { namespace, name: podName(vm) }
      await kube.patch(pods, ref, { type: 'json', body }, { subresource: 'resize' })
    },
    async close() {
      for (const { metadata } of (await kube.list(virtualMachines, { namespace })).items)
        await kube.delete(virtualMachines, { namespace, name: metadata.name })
      while ((await kube.list(virtualMachines, { namespace })).items.length > 0) await sleep(200)
      await kube.delete(namespaces, { name: namespace })
      for (const name of volumes) await kube.delete(persistentVolumes, { name })
      for (const loop of loops) await run(['losetup', '--detach', loop])
      rmSync(directory, { recursive: true })
    },
  }
}

/** Boots from its first volume; each of `volumes` is a disk: vda, vdb and so on. A seed is a CD. */
function linux(name: string, namespace: string, volumes: readonly Volume[]): VirtualMachine {
  const disks = volumes.filter(({ cloudInit }) => cloudInit === undefined)
  const seeds = volumes.filter(({ cloudInit }) => cloudInit !== undefined)
  return {
    apiVersion: 'virtset.io/v1alpha1',
    kind: 'VirtualMachine',
    metadata: { name, namespace },
    spec: {
      terminationGracePeriodSeconds: 0,
      domain: {
        type: 'qemu',
        memory: { unit: 'MiB', value: 256 },
        os: { type: { os: 'hvm' } },
        devices: {
          disks: [
            ...disks.map((volume, index) => ({
              type: 'volume' as const,
              device: 'disk' as const,
              source: { volume: volume.name },
              target: { dev: `vd${'abcdefgh'.charAt(index)}`, bus: 'virtio' as const },
            })),
            ...seeds.map((volume) => ({
              type: 'volume' as const,
              device: 'cdrom' as const,
              source: { volume: volume.name },
              target: { dev: 'sda', bus: 'sata' as const },
            })),
          ],
          channels: [{ type: 'unix', target: { type: 'virtio', name: 'org.qemu.guest_agent.0' } }],
          serials: [{ type: 'pty', target: { port: 0 } }],
        },
      },
      volumes,
    },
  }
}

export const imageVolume = (reference: string, name = 'root'): Volume => ({ name, image: { reference, capacity } })
export const claimVolume = (claimName: string, reference?: string): Volume => ({
  name: claimName,
  persistentVolumeClaim: {
    claimName,
    ...(reference === undefined ? {} : { capacity, source: { image: { reference } } }),
  },
})

/** TCG on a busy host. */
const deadlineSeconds = 600

async function start(kube: KubeClient, vm: VirtualMachine): Promise<Started> {
  const { namespace = '', name = '' } = vm.metadata
  const { resourceVersion } = await kube.list(virtualMachines, { namespace })
  const stop = new AbortController()
  const options = { namespace, resourceVersion, timeoutSeconds: deadlineSeconds, signal: stop.signal }
  const events = kube.watch(virtualMachines, options)
  const begin = performance.now()
  const created = kube.create(virtualMachines, vm)
  let runningMs: number | undefined
  try {
    for await (const { object } of events) {
      if (!virtualMachines.accepts(object) || object.metadata.name !== name) continue
      const { phase, message, conditions = [] } = object.status ?? {}
      if (phase === 'Failed') throw new Error(`${name} has failed: ${message}`)
      if (phase === 'Running') runningMs ??= performance.now() - begin
      const hasAgent = conditions.some(({ type, status }) => type === 'AgentConnected' && status === 'True')
      if (runningMs !== undefined && hasAgent) return { vm: object, runningMs, bootedMs: performance.now() - begin }
    }
  } finally {
    await created
    stop.abort()
  }
  throw new Error(`${name} has not booted within ${deadlineSeconds} s`)
}
