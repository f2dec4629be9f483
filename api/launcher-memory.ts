import type { Domain } from './domain/domain.ts'
import { exactNumber, integerOf } from './domain/scalar-value.ts'
import { scaled } from './domain/elements/size.ts'
import { isRecord } from './schema.ts'

/*
 * What QEMU, libvirt and the launcher may allocate for a VM. docs/decisions/launcher-memory.md explains where the
 * figures come from. A part of the domain that is not named here costs what `otherDeviceBytes` or `qemuBytes` have room
 * for.
 */

const kibibyte = 1024n
const mebibyte = 1024n * kibibyte

/** Node and libvirtd: 55 MiB measured, the start bench checks 90 MiB. */
const launcherBytes = 90n * mebibyte
/** QEMU without a guest, its pool of 64 worker threads, and the second QEMU that libvirt probes: 45 MiB measured. */
const qemuBytes = 64n * mebibyte
/** No machine type of QEMU supports more; a rule refuses them. */
const mostVcpus = 4096n
/** A device that is not on the PCI bus, including a bus itself. */
const otherDeviceBytes = mebibyte / 4n
/** In-flight requests of a disk: 256 coroutines, each of which uses 16 KiB of its stack. */
const diskBytes = 4n * mebibyte
/** For each image, Ceph's client adds threads and a cache to QEMU. */
const cephBytes = 64n * mebibyte
/** QEMU's default for the cache of a qcow2 image: enough for 256 GiB. */
const defaultMetadataCacheBytes = 33n * mebibyte
/**
 * The cache that the launcher sets for the disk in a container image, enough for 32 GiB. What is not in it is read
 * from the page cache of the node, since the image does not change.
 */
export const imageCacheBytes = 4n * mebibyte
/** Buffers of one virtqueue of a disk or interface that has several. */
const queueBytes = mebibyte / 4n
/** The TCP/IP stack in QEMU for an interface of type `user`: buffers for 64 connections. */
const userNetworkBytes = 16n * mebibyte
/** passt: 15 to 18 MiB measured with a stream socket, 24 MiB with vhost-user. */
const passtBytes = 24n * mebibyte
/** A socket that passt listens on: 4.2 KiB of kernel memory measured. */
const forwardedPortBytes = 5n * kibibyte
/** An I/O thread without its worker threads. */
const iothreadBytes = mebibyte / 2n
/** The part of its stack that a worker thread uses, in QEMU and in the kernel. */
const workerThreadBytes = 40n * kibibyte
const defaultWorkerThreads = 64n
/** The copy of the screen, the encoder and the output buffer of one viewer. */
const viewerBytes = 32n * mebibyte
const spiceBytes = 64n * mebibyte
/** Frame buffers of one `virtio` screen at 4K: QEMU keeps a copy of what the guest draws. */
const virtioScreenBytes = 64n * mebibyte
const acceleratedBytes = 512n * mebibyte
const defaultVideoKibibytes = 16_384n
const defaultQxl = { ram: 65_536n, vram: 65_536n, vgamem: 16_384n, vram64: 0n }

/** virtiofsd without open files, or QEMU's own server of 9p. */
const filesystemBytes = 32n * mebibyte
/** virtiofsd has a file open for each one that the guest has in its cache. */
const defaultOpenFiles = 32_768n
/** A file that virtiofsd has open, which keeps the inode in the memory of the kernel. */
const openFileBytes = 2n * kibibyte
/** swtpm. */
const tpmBytes = 16n * mebibyte
/** Data that the viewer's USB device has sent and the guest has not read. */
const redirectedDeviceBytes = 16n * mebibyte
const hostDeviceBytes = 8n * mebibyte
const soundBytes = 4n * mebibyte

const smallestTranslationCache = 32n * mebibyte
const largestTranslationCache = 256n * mebibyte
/** TCG's page table for one virtual CPU grows with the pages that the guest uses. */
const largestPageMapBytes = 64n * mebibyte

/** Advice for the status of a VM whose limit turns out to be too low. */
export const outOfMemoryAdvice =
  'make what QEMU allocates smaller (features.tcg.tbCache, driver.metadataCache, fewer devices), ' +
  'or have a cluster preset raise memtune.hardLimit'

/** In bytes, by purpose. */
export interface MemoryDemand {
  /** The memory of the guest, in any form. */
  readonly guest: bigint
  /** What QEMU uses beyond the memory of the guest. */
  readonly qemu: bigint
  readonly launcher: bigint
}

/** What libvirt stores for "no limit", in bytes. In KiB it is VIR_DOMAIN_MEMORY_PARAM_UNLIMITED. */
const unlimitedBytes = (2n ** 53n - 1n) * 1024n

/** @param domain a completed domain: its devices have addresses */
export function memoryDemand(domain: Domain): MemoryDemand {
  const guest = guestBytes(domain)
  const limit = domain.memtune?.hardLimit
  const qemu =
    limit === undefined || bytesOf(limit) >= unlimitedBytes
      ? baseBytes(domain, guest) +
        devicesBytes(domain) +
        videosBytes(domain) +
        disksBytes(domain) +
        iothreadsBytes(domain)
      : largest(0n, bytesOf(limit) - guest)
  return { guest, qemu, launcher: launcherBytes }
}

/**
 * The size of the cache of translated code that the launcher passes to libvirt: the one that the domain sets, otherwise
 * a quarter of the guest's memory within bounds. QEMU's own default is 1 GiB even for a small guest.
 */
export function translationCacheBytes(domain: Domain): bigint {
  const { type, features } = domain
  if (type !== 'qemu') return 0n
  const stated = bytesOf(features?.tcg?.tbCache, 'KiB')
  if (stated > 0n) return stated
  const quarter = guestBytes(domain) / 4n
  const bounded = smallest(largest(quarter, smallestTranslationCache), largestTranslationCache)
  return (bounded / mebibyte) * mebibyte
}

/**
 * libvirt rounds each NUMA node and memory device up to whole MiB. Memory cannot be plugged into a running VM, so
 * `maxMemory` is only address space.
 */
function guestBytes({ memory, cpu, devices }: Domain): bigint {
  const cells = sum(cpu?.numa?.cells, (cell) => wholeMebibytes(bytesOf({ value: cell.memory, unit: cell.unit })))
  const modules = sum(devices?.memories, ({ target }) => wholeMebibytes(bytesOf(target?.size)))
  const shared = sum(devices?.shmems, ({ size }) => (size ? bytesOf(size, 'bytes') : 4n * mebibyte))
  return largest(wholeMebibytes(bytesOf(memory)), cells + modules) + shared + bytesOf(devices?.pstore?.size)
}

function baseBytes(domain: Domain, guest: bigint): bigint {
  const vcpus = smallest(largest(integerOf(domain.vcpu?.value) ?? 1n, 1n), mostVcpus)
  // Measured: 1.4 MiB per CPU for 16 CPUs, 2.6 MiB per CPU for 128.
  const states = vcpus * 2n * mebibyte + (vcpus * vcpus * mebibyte) / 64n
  // QEMU's page table has 8 bytes for each page of 4 KiB. KVM adds the same for its own table and for its reverse map.
  const pageTables = guest / 512n
  if (domain.type !== 'qemu') return qemuBytes + states + 3n * pageTables
  const pageMaps = vcpus * smallest(guest / 16n, largestPageMapBytes)
  return qemuBytes + states + pageTables + pageMaps + translationCacheBytes(domain)
}

function devicesBytes({ devices = {} }: Domain): bigint {
  const lists: readonly (readonly object[])[] = Object.values(devices).filter((list) => Array.isArray(list))
  const all = [...lists.flat(), devices.memballoon, devices.vsock].filter((device) => device !== undefined)
  const onPci = BigInt(all.filter((device) => isOnPci(device)).length)
  // Each device has an address space, and QEMU rebuilds all of them for each device that it adds. Measured up to 80
  // devices.
  const addressSpaces = onPci * 2n * mebibyte + (onPci * onPci * mebibyte) / 8n
  const others =
    sum(devices.filesystems, sharingBytes) +
    sum(devices.tpms, () => tpmBytes) +
    sum(devices.redirdevs, () => redirectedDeviceBytes) +
    sum(devices.hostdevs, () => hostDeviceBytes) +
    sum(devices.sounds, () => soundBytes)
  const interfaces = sum(devices.interfaces, (one) => networkBytes(one) + queuesBytes(one.driver?.queues))
  return addressSpaces + BigInt(all.length) * otherDeviceBytes + others + interfaces
}

type Filesystem = NonNullable<NonNullable<Domain['devices']>['filesystems']>[number]

function sharingBytes({ driver, source, binary }: Filesystem): bigint {
  if (driver?.type !== 'virtiofs' || source?.socket !== undefined) return filesystemBytes
  return filesystemBytes + BigInt(mostOpenFiles(binary?.openfiles)) * openFileBytes
}

/** The number of files that virtiofsd can have open. */
export function mostOpenFiles(openfiles: unknown): number | string {
  const stated = isRecord(openfiles) ? integerOf(openfiles['max']) : undefined
  return exactNumber(stated !== undefined && stated > 0n ? stated : defaultOpenFiles)
}

type NetworkInterface = NonNullable<NonNullable<Domain['devices']>['interfaces']>[number]

/** What connects an interface without help of the node: passt with the ports that it forwards, or QEMU itself. */
function networkBytes({ type, backend, portForwards }: NetworkInterface): bigint {
  if (backend?.type !== 'passt') return type === 'user' ? userNetworkBytes : 0n
  const ports = sum(portForwards, ({ ranges }) =>
    sum(ranges, ({ start, end, exclude }) => {
      const first = integerOf(start) ?? 0n
      const last = integerOf(end) ?? first
      return exclude === true || last < first ? 0n : last - first + 1n
    }),
  )
  return passtBytes + ports * forwardedPortBytes
}

/** The ports of PCI Express are counted with the device behind them. */
function isOnPci(device: object): boolean {
  const isPort = 'type' in device && device.type === 'pci'
  const address = 'address' in device ? device.address : undefined
  return !isPort && typeof address === 'object' && address !== null && 'type' in address && address.type === 'pci'
}

function videosBytes({ devices }: Domain): bigint {
  const viewers = sum(devices?.graphics, ({ type }) => (type === 'spice' ? spiceBytes : viewerBytes))
  const videos = sum(devices?.videos, ({ model = {} }) => {
    const given = (value: number | string | undefined, absent: bigint) => (integerOf(value) || absent) * kibibyte
    switch (model.type) {
      case 'none':
        return 0n
      case 'qxl':
        return (
          given(model.ram, defaultQxl.ram) +
          given(model.vram, defaultQxl.vram) +
          given(model.vgamem, defaultQxl.vgamem) +
          given(model.vram64, defaultQxl.vram64)
        )
      case 'virtio': {
        const screens = largest(integerOf(model.heads) ?? 1n, 1n)
        return screens * virtioScreenBytes + (model.acceleration?.accel3d === true ? acceleratedBytes : 0n)
      }
      default:
        return given(model.vram, defaultVideoKibibytes)
    }
  })
  return viewers + videos
}

function disksBytes({ devices }: Domain): bigint {
  return sum(devices?.disks, ({ driver, source, backingStore }) => {
    const ceph = source?.protocol === 'rbd' ? cephBytes : 0n
    const top = driver?.type === 'qcow2' ? metadataCacheBytes(driver.metadataCache) : 0n
    let below = 0n
    for (let layer = backingStore; layer !== undefined; layer = layer.backingStore) {
      if (layer.format?.type === 'qcow2') below += metadataCacheBytes(layer.format.metadataCache)
    }
    return diskBytes + ceph + top + below + queuesBytes(driver?.queues)
  })
}

function iothreadsBytes({ iothreads, iothreadids, defaultiothread }: Domain): bigint {
  const stated = iothreadids?.iothreads ?? []
  const count = largest(integerOf(iothreads) ?? 0n, BigInt(stated.length))
  const workers = (pool: { readonly threadPoolMax?: number | string } | undefined) =>
    largest(integerOf(pool?.threadPoolMax) ?? defaultWorkerThreads, 0n) * workerThreadBytes
  const unstated = (count - BigInt(stated.length)) * workers(undefined)
  const main = defaultiothread === undefined ? 0n : workers(defaultiothread)
  return count * iothreadBytes + sum(stated, workers) + unstated + main
}

function metadataCacheBytes(cache: { readonly maxSize?: Size } | undefined): bigint {
  return bytesOf(cache?.maxSize, 'bytes') || defaultMetadataCacheBytes
}

const queuesBytes = (queues: number | string | undefined): bigint => (integerOf(queues) ?? 0n) * queueBytes

interface Size {
  readonly value?: number | string | undefined
  readonly unit?: string | undefined
}

function bytesOf(size: Size | undefined, absent: 'KiB' | 'MiB' | 'bytes' = 'KiB'): bigint {
  const inBytes = { value: 'value', unit: 'unit', absent, to: 'bytes' } as const
  return size === undefined ? 0n : (scaled(inBytes, size.value, size.unit)?.value ?? 0n)
}

function sum<T>(list: readonly T[] | undefined, bytes: (item: T) => bigint): bigint {
  return (list ?? []).reduce((total, item) => total + bytes(item), 0n)
}

const wholeMebibytes = (bytes: bigint): bigint => ((bytes + mebibyte - 1n) / mebibyte) * mebibyte

const largest = (one: bigint, other: bigint): bigint => (one > other ? one : other)
const smallest = (one: bigint, other: bigint): bigint => (one < other ? one : other)
