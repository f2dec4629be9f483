import { claimNameOf, claimsOfVm, isClaimOf } from '../api/claim-template.ts'
import type { VirtualMachineGroup } from '../api/group.ts'
import type { VirtualMachine } from '../api/virtual-machine.ts'
import { unlessCounting, unlessNotFound } from '../runtime/api-error.ts'
import type { KubeClient } from '../runtime/kube.ts'
import { withoutManagedFields } from '../runtime/partial-json.ts'
import { apiVersionOf, keyOf, refOf, resource, virtualMachines, type Persisted } from '../runtime/resource.ts'
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

/**
 * Creates the claims of a VM of the group that do not exist yet, until the deadline. Returns whether all exist.
 *
 * @param vm its name
 * @throws ClaimEnding
 */
export async function createClaims(kube: Client, group: Group, vm: string, deadline: PassDeadline): Promise<boolean> {
  for (const claim of claimsOfVm({ ...group, kind: 'VirtualMachineGroup' }, vm)) {
    const { name } = claim.metadata
    const found = await unlessNotFound(kube.get(persistentVolumeClaims, { ...refOf(keyOf(group.metadata)), name }))
    if (found === undefined) {
      if (deadline.isOver()) return false
      await unlessCounting(kube.create(persistentVolumeClaims, claim))
    } else if (isEndingFor(group, found))
      throw new ClaimEnding(`the claim ${name} is being deleted; the VM ${vm} gets a new one`)
  }
  return true
}

/** With all owners, which a patch replaces. */
const wholeClaims = resource<Claim>({ ...persistentVolumeClaims, read: withoutManagedFields })

/**
 * Makes a VM the owner of its claims, so that the garbage collector of Kubernetes deletes them after it. If this
 * process ends before, they remain: another VM of this number can have been created since.
 */
export async function bindClaims(kube: Client, group: Group, { metadata }: Persisted<VirtualMachine>): Promise<void> {
  const owner = { apiVersion: apiVersionOf(virtualMachines), kind: 'VirtualMachine', ...pick(metadata, 'name', 'uid') }
  for (const template of group.spec.claimTemplates ?? []) {
    const ref = { ...refOf(keyOf(metadata)), name: claimNameOf(template.name, metadata.name) }
    const claim = await unlessNotFound(kube.get(wholeClaims, ref))
    if (claim === undefined || isEndingFor(group, claim)) continue
    if (!isClaimOf({ kind: 'VirtualMachineGroup', metadata: group.metadata }, claim.metadata)) continue
    // The garbage collector deletes an object when none of its owners exists any more.
    const others = (claim.metadata.ownerReferences ?? []).filter(({ uid }) => uid !== group.metadata.uid)
    const body = { metadata: { uid: claim.metadata.uid, ownerReferences: [...others, owner] } }
    await unlessNotFound(kube.patch(persistentVolumeClaims, ref, { type: 'merge', body }))
  }
}

/** Whether it is deleted, or will be with its VM or an earlier group of this name. */
const isEndingFor = ({ metadata: { name, uid } }: Group, claim: Claim): boolean =>
  isEnding(claim, [{ kind: 'VirtualMachineGroup', name, uid }]) ||
  (claim.metadata.ownerReferences ?? []).some(({ kind }) => kind === 'VirtualMachine')
