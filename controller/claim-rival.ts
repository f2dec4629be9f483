import { isSameAttachment, type AttachedVolume, type AttachmentPod } from '../api/attached-volume.ts'
import { claimDiskUse } from '../api/claim-disk-use.ts'
import { isFinished, type VirtualMachine, type VirtualMachineSpec } from '../api/virtual-machine.ts'
import { keyOf } from '../runtime/resource.ts'
import type { Persisted } from '../runtime/resource.ts'
import { pick } from '../runtime/slim.ts'
import { precedes } from './age.ts'
import type { Claim } from './pod.ts'

/** A claim of a VM's own volume whose disks do not share it with other guests. */
export interface ExclusiveClaim {
  readonly claimName: string
  readonly isWriter: boolean
}

/** A VM, and in place of its disks the claims that they use alone. */
export interface ClaimUser extends VirtualMachine {
  readonly exclusiveClaims?: readonly ExclusiveClaim[]
}

type Vm = Persisted<ClaimUser>

/** Another VM that keeps a claim from being attached to a VM. */
export interface Rival {
  readonly name: string
  readonly how: Hold
  /** Whether the VM has ended, and its pod has not. */
  readonly hasEnded: boolean
  /** Why its pod does not serve the claim. */
  readonly reason?: string
  /** Whether it only asks for the claim, and will see that an older VM asks, too. */
  readonly givesWay: boolean
}

/** Of one VM, like in the cache of the webhooks: with the 256 volumes that a VM can have, VMs could take all memory. */
const mostClaims = 16

/** The first claims that the disks of a VM use, without those that all of their disks share. */
export function exclusiveClaimsOf({ domain, volumes = [] }: VirtualMachineSpec): readonly ExclusiveClaim[] {
  const disks = (domain.devices?.disks ?? []).filter(({ type }) => type === 'volume')
  const disksOf = Map.groupBy(disks, ({ source }) => source?.volume)
  return volumes
    .flatMap(({ name, persistentVolumeClaim: claim }): ExclusiveClaim[] => {
      const users = disksOf.get(name)
      if (claim === undefined || users === undefined) return []
      const { isWriter, isShared } = claimDiskUse(users, claim.readOnly === true)
      return isShared ? [] : [{ claimName: claim.claimName, isWriter }]
    })
    .slice(0, mostClaims)
}

/**
 * How firmly a VM has a claim. The status can be late to say that a guest has the disk which a pod serves, and a guest
 * whose disk is a volume of its VM has QEMU's lock.
 */
const holds = ['guestHasIt', 'podHasNode', 'volume', 'asks'] as const
type Hold = (typeof holds)[number]

interface Use extends ExclusiveClaim {
  readonly how: Hold
  readonly reason?: string
  /** Another claim that has the name now is not used. */
  readonly onlyUID?: string
}

/** Those that come first are firmer. */
const isFirmer = (one: Hold, other: Hold): boolean => holds.indexOf(one) < holds.indexOf(other)

/**
 * A VM that has not got as far cannot keep others waiting: it may never start. One that has ended keeps what its pods
 * have until they are gone: they write what they have received, and that its guest has ended is what its launcher claims.
 * @param isAsked of a claim by its name: no more is read of the others
 */
const usesOf = (vm: Vm, isAsked: (claimName: string) => boolean = () => true): readonly Use[] => {
  const volumes = isFinished(vm) || vm.status?.nodeName === undefined ? [] : (vm.exclusiveClaims ?? [])
  return [
    ...volumes.filter(({ claimName }) => isAsked(claimName)).map((one) => ({ ...one, how: 'volume' as const })),
    ...(vm.status?.attachmentPods ?? []).flatMap((entry): Use[] => {
      const { claimName, readOnly = false } = entry
      const how = isAsked(claimName) ? holdOf(vm, entry) : undefined
      if (how === undefined) return []
      return [{ claimName, isWriter: !readOnly, how, ...pick(entry, 'reason'), ...onlyUIDOf(entry, how) }]
    }),
  ]
}

/**
 * A guest whose pod is gone gets no other claim in place of its own, which can have been deleted. While there is a pod,
 * the claim cannot be.
 */
const onlyUIDOf = ({ podUID, claimUID }: AttachmentPod, how: Hold): Pick<Use, 'onlyUID'> =>
  how !== 'guestHasIt' || podUID !== undefined || claimUID === undefined ? {} : { onlyUID: claimUID }

/** Undefined if it does not get the claim as things are. */
function holdOf(vm: Vm, entry: AttachmentPod): Hold | undefined {
  const { podUID, claimUID, reason } = entry
  const wasServed = podUID !== undefined || (claimUID !== undefined && !isFinished(vm))
  // That the guest has it is what its launcher claims; that it was served, only the controller states.
  if (wasServed && hasDisk(vm, entry)) return 'guestHasIt'
  if (podUID !== undefined) return 'podHasNode'
  return reason === undefined && mayAttach(vm) ? 'asks' : undefined
}

/** Whether the guest has the disk, according to its launcher. */
export const hasDisk = (
  { status }: VirtualMachine,
  { name, claimName }: Pick<AttachmentPod, 'name' | 'claimName'>,
): boolean =>
  (status?.attachedVolumes ?? []).some(
    (one) =>
      one.name === name && one.claimName === claimName && (one.phase === 'Attached' || one.phase === 'Detaching'),
  )

/** Whether claims can be attached to a VM now. */
export const mayAttach = ({ metadata, status }: VirtualMachine): boolean =>
  status?.phase === 'Running' && status.nodeName !== undefined && metadata.deletionTimestamp === undefined

/**
 * The key under which the index of VMs has those that can keep a claim from a volume. One that only reads is kept from it
 * only by those that write: thousands can read it, and would each look at all others.
 */
export const claimKey = (
  { namespace = '' }: VirtualMachine['metadata'],
  { claimName, readOnly = false }: AttachedVolume['persistentVolumeClaim'],
): string => `${keyOf({ namespace, name: claimName })}${readOnly ? ' writers' : ''}`

/** For the index of VMs by `claimKey`. */
export const claimKeysOf = (vm: Vm): readonly string[] =>
  usesOf(vm).flatMap(({ claimName, isWriter }) =>
    [false, ...(isWriter ? [true] : [])].map((readOnly) => claimKey(vm.metadata, { claimName, readOnly })),
  )

/** Whether the guest has the disk, and keeps it: nothing is asked of other VMs then. */
export const keepsDisk = (vm: Vm, volume: AttachedVolume): boolean => holdFor(vm, volume) === 'guestHasIt'

/** Whether other VMs can see in the status that this one asks for the claim. */
export const asksFor = (vm: Vm, volume: AttachedVolume): boolean => holdFor(vm, volume) === 'asks'

function holdFor(vm: Vm, volume: AttachedVolume): Hold | undefined {
  const entry = entryOf(vm, volume)
  return entry && holdOf(vm, entry)
}

const entryOf = ({ status }: Vm, volume: AttachedVolume): AttachmentPod | undefined =>
  (status?.attachmentPods ?? []).find((one) => isSameAttachment(volume, one))

/**
 * By the name of the claim: a VM because of which a volume must not be attached now. One that does not give way comes
 * before one that does.
 * @param claims those that exist, by their names, as far as they are known
 * @param find looks at VMs in the index by `claimKey` until it is told to stop
 */
export function rivalsOf(
  vm: Vm,
  claims: ReadonlyMap<string, Persisted<Claim>>,
  find: (key: string, mayStop: (other: Vm) => boolean) => void,
): Map<string, Rival> {
  const rivals = new Map<string, Rival>()
  for (const volume of mayAttach(vm) ? (vm.spec.attachedVolumes ?? []) : []) {
    if (keepsDisk(vm, volume)) continue
    const { claimName } = volume.persistentVolumeClaim
    // Of one that has a pod, no claim is read: the pod serves the one that is noted.
    const claimUID = claims.get(claimName)?.metadata.uid ?? entryOf(vm, volume)?.claimUID
    find(claimKey(vm.metadata, volume.persistentVolumeClaim), (other) => {
      const rival = rivalOf(vm, volume, other, claimUID)
      if (rival !== undefined) rivals.set(claimName, rival)
      return rival?.givesWay === false
    })
  }
  return rivals
}

/**
 * The VM because of which a claim must not be attached to a VM now, if `other` is one. Two that read a claim do not
 * disturb each other. Of several that ask, the one that has got further gets the claim, or else the older one; a guest
 * that has the disk keeps it.
 *
 * A younger one that asks may not have seen yet that this VM does, and get the claim: this VM continues to ask, and
 * waits until that one has got it, or has given way.
 */
export function rivalOf(vm: Vm, volume: AttachedVolume, other: Vm, claimUID?: string): Rival | undefined {
  if (other.metadata.uid === vm.metadata.uid) return undefined
  const { claimName, readOnly = false } = volume.persistentVolumeClaim
  const own = holdFor(vm, volume) ?? 'asks'
  if (own === 'guestHasIt') return undefined
  const uses = usesOf(other, (name) => name === claimName).filter(
    ({ isWriter, onlyUID = claimUID }) => (isWriter || !readOnly) && (claimUID === undefined || onlyUID === claimUID),
  )
  const firmer = uses.find(({ how }) => isFirmer(how, own) || (how === own && precedes(other, vm)))
  const use = firmer ?? uses.find(({ how }) => how === own && own === 'asks')
  if (use === undefined) return undefined
  const { how, reason } = use
  const explained = how === 'podHasNode' && reason !== undefined ? { reason } : {}
  return { name: other.metadata.name, how, hasEnded: isFinished(other), ...explained, givesWay: firmer === undefined }
}
