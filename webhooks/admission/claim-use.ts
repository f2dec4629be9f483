import type { VirtualMachineSpec } from '../../api/virtual-machine.ts'

/** How a VM uses a claim of its namespace. */
export interface ClaimUse {
  readonly claim: string
  readonly isWriter: boolean
  /** Whether other VMs may write to the claim meanwhile: QEMU does not lock it then. */
  readonly isShared: boolean
}

/** A VM that uses a claim, as it is cached. */
export interface ClaimUser {
  readonly metadata: { readonly name?: string | undefined; readonly namespace?: string | undefined }
  readonly claims?: readonly ClaimUse[]
}

const readOnlyDevices = ['cdrom']

/**
 * Of one VM, in the order of its volumes. Every VM of the cluster is cached with its claims, and each claim of a new VM
 * is compared with all of theirs: with the 256 volumes that a VM can have, a tenant's VMs could take all memory.
 */
const mostClaims = 16

/** The first `mostClaims` claims that the disks of a VM use, with the strictest of their uses. */
export function claimUses({ domain, volumes = [] }: VirtualMachineSpec): readonly ClaimUse[] {
  const disks = (domain.devices?.disks ?? []).filter(({ type }) => type === 'volume')
  const disksOf = Map.groupBy(disks, ({ source }) => source?.volume)
  const uses = volumes.flatMap(({ name, persistentVolumeClaim: claim }) => {
    const users = disksOf.get(name)
    if (claim === undefined || users === undefined) return []
    const isWriter = users.some(
      ({ readonly, device = 'disk' }) =>
        claim.readOnly !== true && readonly === undefined && !readOnlyDevices.includes(device),
    )
    const isShared = users.every(({ shareable }) => shareable !== undefined)
    return [{ claim: claim.claimName, isWriter, isShared }]
  })
  return uses.slice(0, mostClaims)
}

/**
 * Warnings for the claims that another VM uses in a way that QEMU's locks do not allow: the second of the two VMs
 * cannot start. The first may be stopped before, so it is not refused.
 *
 * @param users the VMs of the namespace that use a claim
 */
export function claimWarnings(
  spec: VirtualMachineSpec,
  vm: { readonly name?: string | undefined },
  users: (claim: string) => readonly ClaimUser[],
): readonly string[] {
  return claimUses(spec).flatMap((own) => {
    const other = users(own.claim).find(
      ({ metadata, claims = [] }) => metadata.name !== vm.name && claims.some((theirs) => isLocked(own, theirs)),
    )
    if (other === undefined) return []
    const claim = JSON.stringify(own.claim)
    return [
      `the VM ${JSON.stringify(other.metadata.name)} uses the claim ${claim} too: the VM that starts second fails, unless each disk of the two has shareable: {} or only reads`,
    ]
  })
}

const isLocked = (one: ClaimUse, other: ClaimUse): boolean =>
  one.claim === other.claim && ((one.isWriter && !other.isShared) || (other.isWriter && !one.isShared))
