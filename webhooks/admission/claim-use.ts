import { hash } from 'node:crypto'
import { mostAttached } from '../../api/attached-volume.ts'
import { type ClaimDiskUse, claimDiskUse } from '../../api/claim-disk-use.ts'
import type { VirtualMachineSpec } from '../../api/virtual-machine.ts'
import { filesystemVolumes } from '../../completion/rules/filesystem-volume.ts'

/** How a VM uses a claim of its namespace. */
export interface ClaimUse extends ClaimDiskUse {
  readonly claim: string
  /** Its guest shares the files of the claim, so it has no disk in it, and can replace that of another VM. */
  readonly isFiles?: true
}

/**
 * Of one VM, in the order of its volumes. Every VM of the cluster is cached with its claims: with the 256 volumes that a
 * VM can have, a tenant's VMs could take all memory.
 */
const mostClaims = 16

/**
 * The first `mostClaims` claims that the disks, file systems or device state of a VM use, with the strictest of their uses, and after
 * them those of its attached volumes.
 */
export function claimUses(spec: VirtualMachineSpec): readonly ClaimUse[] {
  const { domain, volumes = [], attachedVolumes = [], deviceStateVolume } = spec
  const disks = (domain.devices?.disks ?? []).filter(({ type }) => type === 'volume')
  const disksOf = Map.groupBy(disks, ({ source }) => source?.volume)
  const shared = new Set(filesystemVolumes(domain).map((one) => one.name))
  const uses = volumes.flatMap(({ name, persistentVolumeClaim: claim }): ClaimUse[] => {
    const users = disksOf.get(name)
    if (claim === undefined) return []
    if (shared.has(name)) return [{ claim: claim.claimName, isWriter: true, isShared: true, isFiles: true }]
    // QEMU does not lock the device state, so only a guest that shares the files conflicts with it.
    if (users === undefined && name === deviceStateVolume)
      return [{ claim: claim.claimName, isWriter: false, isShared: true }]
    if (users === undefined) return []
    return [{ claim: claim.claimName, ...claimDiskUse(users, claim.readOnly === true) }]
  })
  const attached = attachedVolumes
    .slice(0, mostAttached)
    .map(({ persistentVolumeClaim: { claimName, readOnly = false } }): ClaimUse => ({
      claim: claimName,
      isWriter: !readOnly,
      isShared: false,
    }))
  return [...uses, ...attached].slice(0, mostClaims)
}

/** Of a key in base64: 132 bits. */
const keyLength = 22

/**
 * A digest of the namespace, the claim and the way in which a VM uses it: the VMs that use it otherwise are not looked
 * at. A name can have 253 characters, so the digest is what is cached.
 */
export const claimKey = (namespace: string, { claim, isWriter, isShared, isFiles }: ClaimUse): string => {
  const way = isFiles ? 'files' : `${isWriter ? 'writer' : 'reader'}${isShared ? '/shared' : ''}`
  return hash('sha256', `${namespace}/${claim}/${way}`, 'base64').slice(0, keyLength)
}

/**
 * Warnings for the claims that another VM uses in a way that QEMU's locks do not allow, so that the second of the two
 * VMs cannot start, or as files, so that its guest can replace the disk. The first VM may be stopped before, so the
 * second is not refused.
 *
 * @param userOf the name of another VM of the namespace that uses a claim in this way
 */
export function claimWarnings(
  spec: VirtualMachineSpec,
  userOf: (use: ClaimUse) => string | undefined,
): readonly string[] {
  return claimUses(spec).flatMap((own) => {
    for (const use of conflictingWith(own)) {
      const other = userOf(use)
      if (other !== undefined) return [warning(own, use, JSON.stringify(other))]
    }
    return []
  })
}

function warning(own: ClaimUse, use: ClaimUse, other: string): string {
  const claim = JSON.stringify(own.claim)
  if (own.isFiles)
    return `the VM ${other} has a disk or its device state in the claim ${claim}: the guest can replace it by other files`
  if (use.isFiles)
    return `the VM ${other} shares the files of the claim ${claim}: its guest can replace the disk or the device state`
  return `the VM ${other} uses the claim ${claim} too: the VM that starts second fails, unless each disk of the two has shareable: {} or only reads, or one is an attached volume and the other has shareable: {}; a block volume is locked only within a node, and not against a VM that writes alone and starts after VMs that share or read`
}

/** The uses of the same claim that conflict with this one. */
function conflictingWith(own: ClaimUse): ClaimUse[] {
  const { claim } = own
  const disks = [true, false].flatMap((isWriter) => [false, true].map((isShared) => ({ claim, isWriter, isShared })))
  if (own.isFiles) return disks
  const locked = disks.filter((other) => (own.isWriter && !other.isShared) || (other.isWriter && !own.isShared))
  return [...locked, { claim, isWriter: true, isShared: true, isFiles: true }]
}
