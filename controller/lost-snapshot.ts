import { isDnsSubdomain } from '../api/label.ts'
import { isForbidden, unlessNotFound } from '../runtime/api-error.ts'
import type { KubeClient } from '../runtime/kube.ts'
import type { Claim } from './pod.ts'
import { volumeSnapshots } from './volume-snapshot.ts'

/** A VolumeSnapshot that a claim is still to be filled from, and cannot be. */
export interface LostSnapshot {
  readonly claimName: string
  readonly name: string
  /** It remains as long as the claim. */
  readonly isEnding: boolean
}

/**
 * Looks for the VolumeSnapshots of those claims that have no volume yet. The storage states in an event of the claim
 * what it lacks, and the scheduler only that the claim is not bound.
 *
 * @param claims by their names
 */
export async function findLostSnapshots(
  kube: Pick<KubeClient, 'get'>,
  namespace: string,
  claims: ReadonlyMap<string, Claim>,
): Promise<readonly LostSnapshot[]> {
  const lost: LostSnapshot[] = []
  for (const [claimName, claim] of claims) {
    const name = awaitedSnapshot(claim)
    if (name === undefined) continue
    try {
      const found = await unlessNotFound(kube.get(volumeSnapshots, { namespace, name }))
      const isEnding = found?.metadata.deletionTimestamp !== undefined
      if (found === undefined || isEnding) lost.push({ claimName, name, isEnding })
    } catch (error) {
      // Without the right to read it, the pod waits for it.
      if (!isForbidden(error)) throw error
    }
  }
  return lost
}

/** Of a claim, others can have any text as the name. Other API groups have kinds of this name. */
export function awaitedSnapshot({ spec = {} }: Claim): string | undefined {
  const { volumeName, dataSource: { apiGroup, kind, name = '' } = {} } = spec
  const isSnapshot = apiGroup === volumeSnapshots.group && kind === volumeSnapshots.kind
  return volumeName === undefined && isSnapshot && isDnsSubdomain(name) ? name : undefined
}

/** Why the VM waits, and what its user can do. */
export function explainLost(lost: readonly LostSnapshot[]): { reason: string; message: string } | undefined {
  const gone = lost.filter(({ isEnding }) => !isEnding)
  if (gone.length > 0) {
    return {
      reason: 'VolumeSnapshotNotFound',
      message: `${named(gone)}, which does not exist: create it; or stop the VM, change the source in the claim template, and delete the claim, which has no data yet`,
    }
  }
  if (lost.length === 0) return undefined
  return {
    reason: 'VolumeSnapshotTerminating',
    message: `${named(lost)}, which is being deleted, so the storage does not fill the claim: keep the claim until an administrator has saved what the VolumeSnapshot contains`,
  }
}

const named = (lost: readonly LostSnapshot[]): string =>
  lost
    .map(({ claimName, name }) => `persistentvolumeclaim "${claimName}" is made from the VolumeSnapshot "${name}"`)
    .join(', ')
