import type { Domain } from '../api/domain/domain.ts'
import type { Logger } from '../runtime/log.ts'
import type { DiskSize, DomainRef } from './libvirt/domain.ts'

interface GrowthOptions {
  readonly readSize: (dom: DomainRef, target: string) => Promise<DiskSize>
  readonly resize: (dom: DomainRef, target: string, bytes: bigint) => Promise<void>
  readonly log: Logger
}

/** Lets the running guest use what the block devices of its disks have gained. Does not reject. */
export type GrowDisks = (dom: DomainRef, domain: Domain) => Promise<void>

/**
 * A claim that is a block volume can grow while its guest runs, but QEMU keeps the size that it read when it opened the
 * device. A call during another has no effect, because both would wait for the same QEMU.
 */
export function createDiskGrowth({ readSize, resize, log }: GrowthOptions): GrowDisks {
  let isBusy = false
  const grow = async (dom: DomainRef, target: string) => {
    try {
      const { capacity, physical } = await readSize(dom, target)
      if (physical <= capacity) return
      await resize(dom, target, physical)
      log.info({ disk: target, from: String(capacity), to: String(physical) }, 'the disk has grown')
    } catch (error) {
      log.warn({ err: error, disk: target }, 'could not let the disk grow')
    }
  }
  return async (dom, domain) => {
    if (isBusy) return
    isBusy = true
    for (const target of growingDisks(domain)) await grow(dom, target)
    isBusy = false
  }
}

/** The targets of the disks whose guest sees the whole of a block device. */
function growingDisks({ devices }: Domain): string[] {
  return (devices?.disks ?? [])
    .filter(({ type, device = 'disk', driver, source, encryption, readonly }) => {
      const isWritableDisk = type === 'block' && device === 'disk' && readonly === undefined
      // The size of a qcow2 image is in its header, and encrypted disks and slices are smaller than their device.
      const isRaw = (driver?.type ?? 'raw') === 'raw' && encryption === undefined
      return isWritableDisk && isRaw && source?.encryption === undefined && source?.slices === undefined
    })
    .flatMap(({ target }) => target?.dev ?? [])
}
