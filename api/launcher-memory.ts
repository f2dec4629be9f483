import type { Domain } from './domain/domain.ts'
import { integerOf } from './domain/scalar-value.ts'
import { scaled } from './domain/elements/size.ts'

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
/** No machine type of QEMU has more; a rule refuses them. */
const mostVcpus = 4096n
/** A device that is not on the PCI bus, a bus included. */
const otherDeviceBytes = mebibyte / 4n
/** Requests in flight of a disk: 256 coroutines, each with a stack of which 16 KiB are used. */
const diskBytes = 4n * mebibyte
/** Ceph's client has threads and a cache of its own in QEMU, for each image. */
const cephBytes = 64n * mebibyte
/** QEMU's default for the cache of a qcow2 image: enough for 256 GiB. */
const defaultMetadataCacheBytes = 33n * mebibyte
/** Buffers of a virtqueue of a disk or an interface that asks for several. */
const queueBytes = mebibyte / 4n
/** The TCP/IP stack in QEMU, for an interface of type `user`: buffers of 64 connections. */
const userNetworkBytes = 16n * mebibyte
/** An I/O thread without its worker threads. */
const iothreadBytes = mebibyte / 2n
/** The part of a worker thread's stack that it uses, in QEMU and in the kernel. */
const workerThreadBytes = 40n * kibibyte
const defaultWorkerThreads = 64n
/** A viewer's copy of the screen, its encoder and its output. */
const viewerBytes = 32n * mebibyte
const spiceBytes = 64n * mebibyte
/** Frame buffers of a screen of `virtio` in 4K: QEMU keeps what the guest draws. */
const virtioScreenBytes = 64n * mebibyte
const acceleratedBytes = 512n * mebibyte
const defaultVideoKibibytes = 16_384n
const defaultQxl = { ram: 65_536n, vram: 65_536n, vgamem: 16_384n, vram64: 0n }

/** virtiofsd, with what it knows of open files. */
const filesystemBytes = 64n * mebibyte
/** swtpm. */
const tpmBytes = 16n * mebibyte
/** What the viewer's USB device has sent and the guest has not read. */
const redirectedDeviceBytes = 16n * mebibyte
const hostDeviceBytes = 8n * mebibyte
const soundBytes = 4n * mebibyte

const smallestTranslationCache = 32n * mebibyte
const largestTranslationCache = 256n * mebibyte
/** The table that maps pages of a guest for one virtual CPU of TCG grows with the pages that the guest uses. */
const largestPageMapBytes = 64n * mebibyte

/** What to do when the limit turns out to be too low, for the status of a VM. */
export const outOfMemoryAdvice =
  'make what QEMU allocates smaller (features.tcg.tbCache, driver.metadataCache, fewer devices), ' +
  'or have a cluster preset raise memtune.hardLimit'

/** In bytes, by what they are for. */
export interface MemoryDemand {
  /** Memory of the guest, in whatever form. */
  readonly guest: bigint
  /** QEMU beside it. */
  readonly qemu: bigint
  readonly launcher: bigint
}

/** libvirt's word for no limit, in KiB: VIR_DOMAIN_MEMORY_PARAM_UNLIMITED. */
const unlimitedBytes = (2n ** 53n - 1n) * 1024n

/** @param domain completed: devices have their addresses */
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
 * The size of the cache of translated code that the launcher passes to libvirt: the stated one, else a quarter of the
 * guest's memory within bounds. QEMU's own default is 1 GiB however small the guest is.
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

/** Memory cannot be plugged into a VM that runs, so that `maxMemory` is address space only. */
function guestBytes({ memory, cpu, devices }: Domain): bigint {
  const cells = sum(cpu?.numa?.cells, (cell) => bytesOf({ value: cell.memory, unit: cell.unit }))
  const modules = sum(devices?.memories, ({ target }) => bytesOf(target?.size))
  const shared = sum(devices?.shmems, ({ size }) => (size ? bytesOf(size, 'bytes') : 4n * mebibyte))
  return largest(bytesOf(memory), cells + modules) + shared + bytesOf(devices?.pstore?.size)
}

function baseBytes(domain: Domain, guest: bigint): bigint {
  const vcpus = smallest(largest(integerOf(domain.vcpu?.value) ?? 1n, 1n), mostVcpus)
  // Measured: 1.4 MiB each of 16, 2.6 MiB each of 128.
  const states = vcpus * 2n * mebibyte + (vcpus * vcpus * mebibyte) / 64n
  // 8 bytes for a page of 4 KiB in QEMU's page table. With KVM the same again for its own table, and for its reverse
  // map.
  const pageTables = guest / 512n
  if (domain.type !== 'qemu') return qemuBytes + states + 3n * pageTables
  const pageMaps = vcpus * smallest(guest / 16n, largestPageMapBytes)
  return qemuBytes + states + pageTables + pageMaps + translationCacheBytes(domain)
}

function devicesBytes({ devices = {} }: Domain): bigint {
  const lists: readonly (readonly object[])[] = Object.values(devices).filter((list) => Array.isArray(list))
  const all = [...lists.flat(), devices.memballoon, devices.vsock].filter((device) => device !== undefined)
  const onPci = BigInt(all.filter((device) => isOnPci(device)).length)
  // Each has an address space, and QEMU rebuilds all of them for each device that it adds. Measured with up to 80.
  const addressSpaces = onPci * 2n * mebibyte + (onPci * onPci * mebibyte) / 8n
  const others =
    sum(devices.filesystems, () => filesystemBytes) +
    sum(devices.tpms, () => tpmBytes) +
    sum(devices.redirdevs, () => redirectedDeviceBytes) +
    sum(devices.hostdevs, () => hostDeviceBytes) +
    sum(devices.sounds, () => soundBytes)
  const interfaces = sum(
    devices.interfaces,
    ({ type, driver }) => (type === 'user' ? userNetworkBytes : 0n) + queuesBytes(driver?.queues),
  )
  return addressSpaces + BigInt(all.length) * otherDeviceBytes + others + interfaces
}

/** Ports of PCI Express come with the device behind them. */
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

const largest = (one: bigint, other: bigint): bigint => (one > other ? one : other)
const smallest = (one: bigint, other: bigint): bigint => (one < other ? one : other)
