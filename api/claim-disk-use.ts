import type { Domain } from './domain/domain.ts'

type Disk = NonNullable<NonNullable<Domain['devices']>['disks']>[number]

/** How the disks of a VM use what is in a claim. */
export interface ClaimDiskUse {
  readonly isWriter: boolean
  /** Whether other VMs may write to it meanwhile: QEMU does not lock it then. */
  readonly isShared: boolean
}

const readOnlyDevices = ['cdrom']

/** The use of a claim by all the disks of a VM that have it as their volume. */
export const claimDiskUse = (disks: readonly Disk[], isReadOnly: boolean): ClaimDiskUse => ({
  isWriter: disks.some(
    ({ readonly, device = 'disk' }) => !isReadOnly && readonly === undefined && !readOnlyDevices.includes(device),
  ),
  isShared: disks.every(({ shareable }) => shareable !== undefined),
})
