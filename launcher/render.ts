import { type ClaimDiskUse, claimDiskUse } from '../api/claim-disk-use.ts'
import { canonical } from '../api/domain/canonical.ts'
import type { Domain } from '../api/domain/domain.ts'
import { imageCacheBytes, mostOpenFiles, translationCacheBytes } from '../api/launcher-memory.ts'
import { isRecord } from '../api/schema.ts'
import type { VirtualMachineSpec } from '../api/virtual-machine.ts'
import type { Identity } from './identity.ts'
import type { Backing } from './image-disk.ts'
import type { Disk } from './media.ts'
import { Refused } from './refused.ts'

/** The source of a disk or file system that uses a volume. */
export type VolumeSource =
  | {
      readonly kind: 'file'
      readonly path: string
      readonly isReadOnly: boolean
      /** Whether it is on the disk of the node, and deleted with the pod. */
      readonly isTemporary?: boolean
    }
  /** A qcow2 file that contains what differs from `backing`. */
  | { readonly kind: 'overlay'; readonly path: string; readonly isReadOnly: boolean; readonly backing: Backing }
  | { readonly kind: 'block'; readonly path: string; readonly isReadOnly: boolean }
  /** For a file system, which shares it. */
  | { readonly kind: 'directory'; readonly path: string; readonly isReadOnly: boolean }

/**
 * The domain for libvirt: the VM's domain with limits on QEMU's memory, which the node must not merge with that of other
 * VMs, with a name and a UUID (the object's if the domain has none), and with every disk and file system of `type:
 * volume` converted to the file, block device or directory of its volume in this pod.
 * @throws Refused DefineRefused if a device names a volume that the VM does not have
 */
export function renderDomain(domain: Domain, vm: Identity, sources: ReadonlyMap<string, VolumeSource>): Domain {
  const named = { name: vm.name, uuid: vm.uid, ...unshared(bounded(domain)) }
  const devices: unknown = domain.devices
  if (!isRecord(devices)) return named
  const render = (key: string, one: typeof renderDisk) => {
    const list = devices[key]
    if (!Array.isArray(list)) return {}
    return { [key]: list.map((device, index) => one(device, sources, `spec.domain.devices.${key}[${index}]`)) }
  }
  const rendered: unknown = {
    ...named,
    devices: { ...devices, ...render('disks', renderDisk), ...render('filesystems', renderFilesystem) },
  }
  return isDomain(rendered) ? rendered : named
}

/**
 * Sets the cache of translated code that the pod's memory limit is computed for. Removes `memtune.hardLimit`, which is
 * that limit if set, because a session libvirtd refuses to limit memory.
 */
function bounded({ memtune, ...domain }: Domain): Domain {
  const { hardLimit: _, ...limits } = memtune ?? {}
  const rest = Object.keys(limits).length === 0 ? domain : { ...domain, memtune: limits }
  if (rest.type !== 'qemu') return rest
  const tbCache = { unit: 'MiB', value: Number(translationCacheBytes(domain) / 1024n / 1024n) }
  return { ...rest, features: { ...rest.features, tcg: { ...rest.features?.tcg, tbCache } } }
}

/**
 * Where the node merges equal pages, a VM can tell from the time of a write whether another VM, of another tenant, has a
 * page with the same content. Memory that is meant to be shared, with a process in the pod, is not affected.
 */
const unshared = (domain: Domain): Domain => ({
  ...domain,
  memoryBacking: { ...domain.memoryBacking, nosharepages: {} },
})

/** The disks of a domain as `renderDomain` converts them, in libvirt's order and spelling. */
export function renderDisks(domain: Domain, sources: ReadonlyMap<string, VolumeSource>): readonly Disk[] {
  const given = domain.devices?.disks ?? []
  const disks = given.map((disk, index) => renderDisk(disk, sources, `spec.domain.devices.disks[${index}]`))
  const rendered: unknown = { devices: { disks } }
  return (isDomain(rendered) ? canonical(rendered).devices?.disks : undefined) ?? []
}

/** How disks use volumes, by the names of the volumes. */
export function volumeUses({
  domain,
  volumes = [],
}: Pick<VirtualMachineSpec, 'domain' | 'volumes'>): ReadonlyMap<string, ClaimDiskUse> {
  const disks = (domain.devices?.disks ?? []).filter(({ type }) => type === 'volume')
  const disksOf = Map.groupBy(disks, ({ source }) => source?.volume)
  return new Map(
    volumes.flatMap(({ name, persistentVolumeClaim: claim }) => {
      const users = disksOf.get(name)
      return users === undefined ? [] : [[name, claimDiskUse(users, claim?.readOnly === true)] as const]
    }),
  )
}

function renderDisk(disk: unknown, sources: ReadonlyMap<string, VolumeSource>, field: string): unknown {
  if (!isRecord(disk) || disk['type'] !== 'volume') return disk
  // libvirt itself resolves a volume of a storage pool.
  const { volume, ...rest } = isRecord(disk['source']) ? disk['source'] : {}
  if (rest['pool'] !== undefined) return disk
  // A drive without a medium.
  if (volume === undefined) {
    const { source: _, ...drive } = disk
    return { ...drive, type: 'file' }
  }
  const source = sourceOf(volume, sources, field)
  if (source.kind === 'directory') throw new Error(`${field} uses a volume that a file system shares`)
  const readonly = source.isReadOnly ? { readonly: {} } : {}
  if (source.kind === 'overlay') return { ...disk, ...overlayOf(disk, rest, source), ...readonly }
  if (source.kind === 'block') return { ...disk, type: 'block', source: { ...rest, dev: source.path }, ...readonly }
  const given = source.isTemporary === true ? discarding(disk) : disk
  return { ...given, type: 'file', source: { ...rest, file: source.path }, ...readonly }
}

function sourceOf(volume: unknown, sources: ReadonlyMap<string, VolumeSource>, field: string): VolumeSource {
  const source = typeof volume === 'string' ? sources.get(volume) : undefined
  if (source !== undefined) return source
  throw new Refused('DefineRefused', `${field}.source.volume: spec.volumes has no ${JSON.stringify(volume)}`)
}

/** The names of the volumes that file systems share. */
export function sharedVolumes({ domain }: Pick<VirtualMachineSpec, 'domain'>): ReadonlySet<string> {
  const filesystems = domain.devices?.filesystems ?? []
  return new Set(filesystems.flatMap(({ type, source }) => (type === 'volume' ? (source?.volume ?? []) : [])))
}

/** Sets the number of files that virtiofsd can have open, for which the pod's memory limit is computed. */
function renderFilesystem(filesystem: unknown, sources: ReadonlyMap<string, VolumeSource>, field: string): unknown {
  if (!isRecord(filesystem) || !isRecord(filesystem['source'])) return filesystem
  const { type, driver, binary } = filesystem
  const { volume, ...source } = filesystem['source']
  if (!isRecord(driver) || driver['type'] !== 'virtiofs' || source['socket'] !== undefined) return filesystem
  const options = isRecord(binary) ? binary : {}
  const limited = { ...filesystem, binary: { ...options, openfiles: { max: mostOpenFiles(options['openfiles']) } } }
  if (type !== 'volume') return limited
  const { path, isReadOnly } = sourceOf(volume, sources, field)
  return { ...limited, type: 'mount', source: { dir: path }, ...(isReadOnly ? { readonly: {} } : {}) }
}

/**
 * What a guest frees of a temporary disk is free on its node, unless the VM states something else: otherwise, the disk
 * would grow to its whole size, whatever the guest stores. The devices in QEMU offer it to the guest in any case.
 */
function discarding<T extends { readonly [key: string]: unknown }>(disk: T): T {
  const { device = 'disk', driver } = disk
  const isSupported = device === 'disk' || device === 'lun'
  return isSupported ? { ...disk, driver: { discard: 'unmap', ...(isRecord(driver) ? driver : {}) } } : disk
}

/** Without a limit, QEMU uses up to 33 MiB, which the memory of the pod does not cover. */
const metadataCache = { maxSize: { unit: 'bytes', value: Number(imageCacheBytes) } }

type Overlay = Extract<VolumeSource, { kind: 'overlay' }>

/**
 * The empty backing store ends the chain: without it, libvirt would read the header of the image and open the files
 * that it names.
 */
function overlayOf(disk: { readonly [key: string]: unknown }, rest: object, { path, backing }: Overlay): object {
  const { driver } = discarding(disk)
  return {
    type: 'file',
    driver: { ...(isRecord(driver) ? driver : {}), type: 'qcow2' },
    source: { ...rest, file: path },
    backingStore: {
      type: 'file',
      format: { type: backing.format, ...(backing.format === 'qcow2' ? { metadataCache } : {}) },
      source: { file: backing.path },
      backingStore: {},
    },
  }
}

/** Every field of a domain is optional, and this one was valid before its disks were converted. */
function isDomain(value: unknown): value is Domain {
  return isRecord(value)
}
