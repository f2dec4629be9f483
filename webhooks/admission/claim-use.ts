import type { VirtualMachineSpec } from '../../api/virtual-machine.ts'

/** How a VM uses a claim of its namespace. */
export interface ClaimUse {
  readonly claim: string
  readonly isWriter: boolean
  /** Whether other VMs may write to the claim meanwhile: QEMU does not lock it then. */
  readonly isShared: boolean
}

const readOnlyDevices = ['cdrom']

/**
 * Of one VM, in the order of its volumes. Every VM of the cluster is cached with its claims: with the 256 volumes that a
 * VM can have, a tenant's VMs could take all memory.
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

/** The namespace, the claim and the way in which a VM uses it: the VMs that use it otherwise are not looked at. */
export const claimKey = (namespace: string, { claim, isWriter, isShared }: ClaimUse): string =>
  `${namespace}/${claim}/${isWriter ? 'writer' : 'reader'}${isShared ? '/shared' : ''}`

/**
 * Warnings for the claims that another VM uses in a way that QEMU's locks do not allow: the second of the two VMs
 * cannot start. The first may be stopped before, so it is not refused.
 *
 * @param userOf the name of another VM of the namespace that uses a claim in this way
 */
export function claimWarnings(
  spec: VirtualMachineSpec,
  userOf: (use: ClaimUse) => string | undefined,
): readonly string[] {
  return claimUses(spec).flatMap((own) => {
    const other = lockedBy(own).reduce<string | undefined>((found, use) => found ?? userOf(use), undefined)
    if (other === undefined) return []
    const claim = JSON.stringify(own.claim)
    return [
      `the VM ${JSON.stringify(other)} uses the claim ${claim} too: the VM that starts second fails, unless each disk of the two has shareable: {} or only reads`,
    ]
  })
}

/** The uses of the same claim that QEMU's locks do not allow beside this one. */
const lockedBy = (own: ClaimUse): ClaimUse[] =>
  [true, false]
    .flatMap((isWriter) => [false, true].map((isShared) => ({ claim: own.claim, isWriter, isShared })))
    .filter((other) => (own.isWriter && !other.isShared) || (other.isWriter && !own.isShared))
