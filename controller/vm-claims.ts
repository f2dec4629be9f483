import { claimNameOf, claimOwnerLabels, claimsOfVm, isClaimOf } from '../api/claim-template.ts'
import type { VirtualMachineGroup } from '../api/group.ts'
import type { OwnerReference } from '../api/object.ts'
import type { VirtualMachine } from '../api/virtual-machine.ts'
import { isConflict, unlessCounting, unlessNotFound } from '../runtime/api-error.ts'
import { microTimestamp, type Clock } from '../runtime/clock.ts'
import type { KubeClient } from '../runtime/kube.ts'
import {
  apiVersionOf,
  identity,
  keyOf,
  refOf,
  resource,
  virtualMachines,
  type ObjectRef,
  type Persisted,
} from '../runtime/resource.ts'
import { pick } from '../runtime/slim.ts'
import { isEnding } from './claim.ts'
import type { PassDeadline } from './pass-deadline.ts'
import { persistentVolumeClaims, type Claim } from './pod.ts'

type Group = Persisted<VirtualMachineGroup>
type Client = Pick<KubeClient, 'get' | 'create' | 'patch'>

/** The claim that a VM needs is that of a VM that was scaled in, or of an earlier group. */
export class ClaimEnding extends Error {
  override name = 'ClaimEnding'
}

/** When a leader last found a claim that it had not created, for a new VM. Only the change of the version matters. */
const usedAnnotation = 'virtset.io/used'

/**
 * Creates the claims of a VM of the group that do not exist yet, until the deadline. Returns whether all exist.
 *
 * One that exists is written: a former leader may have sent `bindClaims` for the last VM of this number, which then
 * fails if it takes effect later, and is seen in the response if it was earlier.
 *
 * @param vm its name
 * @param kept the UIDs of those that only this process can give to a VM; added to
 * @throws ClaimEnding
 */
export async function createClaims(
  kube: Client,
  clock: Pick<Clock, 'now'>,
  group: Group,
  vm: string,
  deadline: PassDeadline,
  kept: Set<string>,
): Promise<boolean> {
  for (const claim of claimsOfVm({ ...group, kind: 'VirtualMachineGroup' }, vm)) {
    const ref = { ...refOf(keyOf(group.metadata)), name: claim.metadata.name }
    const found = await unlessNotFound(kube.get(persistentVolumeClaims, ref))
    if (found !== undefined) {
      assertStays(group, vm, found)
      if (kept.has(found.metadata.uid) || !isOfGroup(group, found)) continue
    }
    if (deadline.isOver()) return false
    const written = found
      ? await markUsed(kube, clock, ref, found)
      : await unlessCounting(kube.create(persistentVolumeClaims, claim))
    assertStays(group, vm, written)
    kept.add(written.metadata.uid)
  }
  return true
}

const markUsed = (kube: Client, clock: Pick<Clock, 'now'>, ref: ObjectRef, { metadata: { uid } }: Persisted<Claim>) =>
  kube.patch(persistentVolumeClaims, ref, {
    type: 'merge',
    body: { metadata: { uid, annotations: { [usedAnnotation]: microTimestamp(clock) } } },
  })

function assertStays(group: Group, vm: string, claim: Persisted<Claim>): void {
  if (!isEndingFor(group, claim)) return
  throw new ClaimEnding(`the claim ${claim.metadata.name} is being deleted; the VM ${vm} gets a new one`)
}

/** With all owners, which a patch replaces, and without the labels and annotations that others add. */
const ownedClaims = resource<Claim>({
  ...persistentVolumeClaims,
  read: {
    metadata: {
      ...identity,
      deletionTimestamp: true,
      labels: Object.fromEntries(claimOwnerLabels.map((label) => [label, true])),
      annotations: { [usedAnnotation]: true },
      ownerReferences: true,
    },
  },
})

/**
 * Makes a VM the owner of its claims, so that the garbage collector of Kubernetes deletes them after it. If this
 * process ends before, they remain: another VM of this number can have been created since. For the same reason, only the
 * version that was read is changed.
 */
export async function bindClaims(kube: Client, group: Group, { metadata }: Persisted<VirtualMachine>): Promise<void> {
  const owner = { apiVersion: apiVersionOf(virtualMachines), kind: 'VirtualMachine', ...pick(metadata, 'name', 'uid') }
  for (const template of group.spec.claimTemplates ?? []) {
    await bindClaim(kube, group, { ...refOf(keyOf(metadata)), name: claimNameOf(template.name, metadata.name) }, owner)
  }
}

/** The storage and the kubelet change claims, too. */
const bindTries = 5

async function bindClaim(
  kube: Client,
  group: Group,
  ref: ObjectRef,
  owner: OwnerReference,
  triesLeft = bindTries,
  before?: Claim,
): Promise<void> {
  const claim = await unlessNotFound(kube.get(ownedClaims, ref))
  if (claim === undefined || isEndingFor(group, claim) || !isOfGroup(group, claim)) return
  // Another leader has found it for a new VM.
  if (before !== undefined && usedAt(claim) !== usedAt(before)) return
  // The garbage collector deletes an object when none of its owners exists any more.
  const others = (claim.metadata.ownerReferences ?? []).filter(({ uid }) => uid !== group.metadata.uid)
  const body = { metadata: { ...pick(claim.metadata, 'uid', 'resourceVersion'), ownerReferences: [...others, owner] } }
  try {
    await unlessNotFound(kube.patch(persistentVolumeClaims, ref, { type: 'merge', body }))
  } catch (error) {
    if (!isConflict(error)) throw error
    // Not a conflict, which ends a pass: nothing leads to the next one, since claims are not watched.
    if (triesLeft <= 1) throw new Error(`the claim ${ref.name} has changed each time`, { cause: error })
    await bindClaim(kube, group, ref, owner, triesLeft - 1, claim)
  }
}

const usedAt = ({ metadata }: Claim): string | undefined => metadata.annotations?.[usedAnnotation]

/** Not one of a user or of another group. */
const isOfGroup = ({ metadata }: Group, claim: Claim): boolean =>
  isClaimOf({ kind: 'VirtualMachineGroup', metadata }, claim.metadata)

/** Whether it is deleted, or will be with its VM or an earlier group of this name. */
const isEndingFor = ({ metadata: { name, uid } }: Group, claim: Claim): boolean =>
  isEnding(claim, [{ kind: 'VirtualMachineGroup', name, uid }]) ||
  (claim.metadata.ownerReferences ?? []).some(({ kind }) => kind === 'VirtualMachine')
