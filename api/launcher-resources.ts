import { integerOf } from './domain/scalar-value.ts'
import { hostDeviceResources } from './host-device.ts'
import { hugePageDemand, pageName } from './huge-pages.ts'
import { imageCacheBytes, memoryDemand } from './launcher-memory.ts'
import { mountedSources } from './mounted-source.ts'
import { quantityValue } from './quantity.ts'
import { usedTaps } from './tap.ts'
import type { VirtualMachineSpec } from './virtual-machine.ts'
import { type ImageVolume, largestUnset, type Volume } from './volume.ts'

/**
 * A tenth of a CPU for each virtual CPU: guests idle most of the time, and the scheduler counts requests, not usage.
 */
const cpuMillisPerVcpu = 100n

/** The resource of a device plugin on nodes that have /dev/kvm. */
export const kvmResource = 'devices.virtset.io/kvm'
/** That of /dev/vhost-vsock, by which libvirt connects the sockets of a guest. */
export const vsockResource = 'devices.virtset.io/vhost-vsock'
/** That of /dev/net/tun, by which QEMU opens a tap. */
const tunResource = 'devices.virtset.io/tun'

/** The resources of a container in Kubernetes' form: quantity by resource name. */
export interface Resources {
  readonly requests: Readonly<Record<string, string>>
  readonly limits: Readonly<Record<string, string>>
  /** Claims of the pod whose devices the container gets. */
  readonly claims?: readonly { readonly name: string }[]
}

type ResourceSpec = Pick<
  VirtualMachineSpec,
  'domain' | 'volumes' | 'taps' | 'dedicatedCPUs' | 'memoryRequest' | 'hostDevices' | 'resourceClaims'
>

/**
 * The resources of the only container of a VM's launcher pod, which the scheduler and the quotas of the namespace
 * count. The memory limit equals the request, because a guest never returns a page that it has touched, unless the VM
 * states a smaller request (`memoryRequest`). The CPU has no
 * limit, unless it is dedicated: the kubelet gives whole CPUs only to pods of the QoS class Guaranteed. What a guest
 * can write to the node's disk is requested as far as the VM states it: empty disks, and changes to disks from images.
 */
export function launcherResources(spec: ResourceSpec): Resources {
  const { domain, volumes = [], dedicatedCPUs = false, memoryRequest, hostDevices = [], resourceClaims = [] } = spec
  const { guest, qemu, launcher } = memoryDemand(domain)
  const vcpus = integerOf(domain.vcpu?.value) ?? 1n
  const cpu = dedicatedCPUs ? `${vcpus}` : `${vcpus * cpuMillisPerVcpu}m`
  const images = volumes.flatMap(({ image }) => image ?? [])
  const isos = volumes.filter((volume) => mountedSources(volume).length > 0)
  const files = BigInt(images.length) * imageCacheBytes + BigInt(isos.length) * mountedIsoBytes
  const pages = [...hugePageDemand(domain)]
  const inPages = pages.reduce((sum, [, bytes]) => sum + bytes, 0n)
  const overhead = qemu + launcher + files
  const memory = guest - inPages + overhead
  const stated = memoryRequest === undefined ? undefined : quantityValue(memoryRequest)
  const overcommitted = stated === undefined ? {} : { memory: `${stated + overhead}` }
  // Extended resources and huge pages need a limit equal to the request.
  const limits = {
    ...(dedicatedCPUs ? { cpu } : {}),
    memory: `${memory}`,
    ...Object.fromEntries(pages.map(([pageBytes, bytes]) => [`hugepages-${pageName(pageBytes)}`, `${bytes}`])),
    ...(domain.type === 'kvm' ? { [kvmResource]: '1' } : {}),
    ...(domain.devices?.vsock === undefined ? {} : { [vsockResource]: '1' }),
    ...hostDeviceResources(hostDevices),
    ...(usedTaps(spec).length > 0 ? { [tunResource]: '1' } : {}),
  }
  const bytes = volumes.reduce((sum, volume) => sum + requestedBytes(volume), 0n)
  const storage = bytes === 0n ? {} : { 'ephemeral-storage': `${bytes}` }
  const claims = resourceClaims.map(({ name }) => ({ name }))
  return {
    requests: { cpu, ...storage, ...limits, ...overcommitted },
    limits,
    ...(claims.length > 0 ? { claims } : {}),
  }
}

/** The ISO of a Secret or ConfigMap is in memory: two files of 1 MiB, what they are made of, and the file system. */
export const mountedIsoBytes = 6n * 1024n * 1024n

/** qcow2's own tables need 0.03 % of the disk with clusters of 64 KiB. */
const metadataFraction = 50n
/** The header and first tables of an empty disk are 196 KiB; the rest is for the file system of the node. */
const overlaySlackBytes = 64n * 1024n * 1024n

/** The most that the file for the guest's changes to the disk of an image can take, in bytes. */
export function overlayBytes({ capacity }: ImageVolume): bigint {
  const disk = (capacity === undefined ? undefined : quantityValue(capacity)) ?? largestUnset
  return disk + disk / metadataFraction + overlaySlackBytes
}

/** Room for the file system's own use around the file of an empty disk. */
const emptyDiskSlackBytes = 16n * 1024n * 1024n

/** The most that an empty disk can take, in bytes. */
export const emptyDiskBytes = ({ capacity }: NonNullable<Volume['emptyDisk']>): bigint =>
  (quantityValue(capacity) ?? 0n) + emptyDiskSlackBytes

/** Without a capacity, the size of an image's disk is not known yet. Most guests change little of their disk. */
function requestedBytes({ emptyDisk, image }: Volume): bigint {
  if (emptyDisk !== undefined) return emptyDiskBytes(emptyDisk)
  if (image === undefined) return 0n
  return image.capacity === undefined ? overlaySlackBytes : overlayBytes(image)
}
