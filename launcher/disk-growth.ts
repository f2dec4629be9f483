import { dirname } from 'node:path'
import type { Domain } from '../api/domain/domain.ts'
import { quantityValue } from '../api/quantity.ts'
import type { VirtualMachineSpec } from '../api/virtual-machine.ts'
import type { Logger } from '../runtime/log.ts'
import type { DiskSize, DomainRef } from './libvirt/domain.ts'

interface GrowthOptions {
  readonly readSize: (dom: DomainRef, target: string) => Promise<DiskSize>
  /** The size in bytes that a disk in a file system can have, at most `capacity`. */
  readonly readRoom: (directory: string, capacity: bigint) => Promise<bigint>
  readonly resize: (dom: DomainRef, target: string, bytes: bigint) => Promise<void>
  readonly log: Logger
}

/** Lets the running guest use what the claims of its disks have gained. Does not reject. */
export type GrowDisks = (dom: DomainRef, domain: Domain, spec: VirtualMachineSpec) => Promise<void>

/**
 * A claim can grow while its guest runs. Of a block volume, QEMU keeps the size that it read when it opened the device;
 * a file must grow itself, which only QEMU can do, because it has locked it. A call during another has no effect,
 * because both would wait for the same QEMU.
 */
export function createDiskGrowth({ readSize, readRoom, resize, log }: GrowthOptions): GrowDisks {
  let isBusy = false
  const grow = async (dom: DomainRef, { target, file }: GrowingDisk) => {
    try {
      const { capacity, physical } = await readSize(dom, target)
      const possible = file === undefined ? physical : await readRoom(file.directory, file.capacity)
      // To QEMU, to grow means to set the size, and the file can be larger than when QEMU opened it.
      if (possible <= capacity || possible < physical) return
      await resize(dom, target, possible)
      log.info({ disk: target, from: String(capacity), to: String(possible) }, 'the disk has grown')
    } catch (error) {
      log.warn({ err: error, disk: target }, 'could not let the disk grow')
    }
  }
  return async (dom, domain, spec) => {
    if (isBusy) return
    isBusy = true
    for (const disk of growingDisks(domain, spec)) await grow(dom, disk)
    isBusy = false
  }
}

interface GrowingDisk {
  readonly target: string
  /** Of a disk in a file system: where it is, and the size that the VM allows. */
  readonly file?: { readonly directory: string; readonly capacity: bigint }
}

/** The disks whose guest sees the whole of a block device, or a file that the VM allows to grow. */
function growingDisks({ devices }: Domain, spec: VirtualMachineSpec): GrowingDisk[] {
  const growing: GrowingDisk[] = []
  for (const { type, device = 'disk', driver, source, encryption, readonly, shareable, target } of devices?.disks ??
    []) {
    if (target?.dev === undefined || device !== 'disk' || readonly !== undefined) continue
    // The size of a qcow2 image is in its header, and encrypted disks and slices are smaller than their device.
    if ((driver?.type ?? 'raw') !== 'raw' || encryption !== undefined) continue
    if (source?.encryption !== undefined || source?.slices !== undefined) continue
    if (type === 'block') growing.push({ target: target.dev })
    // Another guest's QEMU can have grown the file, and would lose what its guest has written there.
    if (shareable !== undefined) continue
    const capacity = type === 'file' ? claimCapacity(target.dev, spec) : undefined
    if (capacity === undefined || source?.file === undefined) continue
    growing.push({ target: target.dev, file: { directory: dirname(source.file), capacity } })
  }
  return growing
}

function claimCapacity(target: string, { domain, volumes = [] }: VirtualMachineSpec): bigint | undefined {
  const name = domain.devices?.disks?.find((disk) => disk.target?.dev === target)?.source?.volume
  const claim = volumes.find((volume) => volume.name === name)?.persistentVolumeClaim
  return claim?.capacity === undefined ? undefined : quantityValue(claim.capacity)
}
