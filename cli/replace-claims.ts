import { isDeepStrictEqual } from 'node:util'
import { isClaimOf } from '../api/claim-template.ts'
import type { VirtualMachineConfig } from '../api/config.ts'
import type { ObjectMeta } from '../api/object.ts'
import type { SnapshotVolume, VirtualMachineSnapshot } from '../api/snapshot.ts'
import { isFinished } from '../api/virtual-machine.ts'
import { isConflict, isNotFound, unlessNotFound } from '../runtime/api-error.ts'
import type { KubeClient } from '../runtime/kube.ts'
import {
  identity,
  type Persisted,
  resource,
  virtualMachineConfigs,
  virtualMachines,
  virtualMachineSnapshots,
} from '../runtime/resource.ts'
import { pages } from './cluster.ts'
import { Usage } from './failure.ts'
import type { Progress } from './follow.ts'
import type { World } from './world.ts'

type Config = Persisted<VirtualMachineConfig>

interface Claim {
  readonly metadata: ObjectMeta
  readonly spec?: { readonly dataSource?: { readonly kind: string; readonly name: string } }
}

const persistentVolumeClaims = resource<Claim>({
  group: '',
  version: 'v1',
  plural: 'persistentvolumeclaims',
  kind: 'PersistentVolumeClaim',
  namespaced: true,
})

/** @throws Usage if the config has a VM that can use its claims, or is about to get one */
export async function refuseUsed({ metadata, status }: Config, kube: KubeClient, signal?: AbortSignal): Promise<void> {
  const { namespace = 'default', name } = metadata
  // The status of the config can be older than its VM.
  const vm = await unlessNotFound(
    kube.get(virtualMachines, { namespace, name }, signal === undefined ? {} : { signal }),
  )
  const { phase = 'Stopped', restart } = status ?? {}
  const isStopped = restart === undefined && (phase === 'Stopped' || phase === 'Failed')
  if (isStopped && (vm === undefined || isFinished(vm))) return
  throw new Usage(`the VM of ${name} uses its claims: stop it first with \`kubectl vm stop ${name} --wait\``)
}

/** Of the snapshots of a namespace. */
const snapshotProgress = resource<VirtualMachineSnapshot>({
  ...virtualMachineSnapshots,
  read: {
    apiVersion: true,
    kind: true,
    metadata: { ...identity, deletionTimestamp: true },
    spec: { source: true },
    status: { phase: true, creationTime: true },
  },
})

/**
 * A snapshot names the claims that it is to be taken of: it would be Ready with what replaces them, and what the guest
 * has written until now would be lost.
 * @throws Usage if a snapshot of the config, or of its VM, is not taken yet
 */
export async function refuseUntaken({ metadata }: Config, kube: KubeClient, signal?: AbortSignal): Promise<void> {
  const { namespace = 'default', name } = metadata
  for await (const page of pages(kube, snapshotProgress, namespace, signal)) {
    const untaken = page.find((snapshot) => snapshot.spec.source.name === name && !isTaken(snapshot))
    if (untaken === undefined) continue
    throw new Usage(
      `the snapshot ${untaken.metadata.name} of ${name} is not taken yet, and would be taken of the restored claims: wait for it (its condition Ready shows what it waits for), or delete it`,
    )
  }
}

/** Or never will be. */
const isTaken = ({ metadata, status: { phase, creationTime } = {} }: VirtualMachineSnapshot): boolean =>
  creationTime !== undefined || phase === 'Ready' || phase === 'Failed' || metadata.deletionTimestamp !== undefined

/**
 * The claims of a snapshot that exist. The claim of the template `a-b` of the config `c` has the name of that of the
 * template `a` of the config `b-c`.
 * @throws Usage if one was not created for the config
 */
export async function findClaims(
  volumes: readonly SnapshotVolume[],
  config: Config,
  kube: KubeClient,
): Promise<readonly Persisted<Claim>['metadata'][]> {
  const { namespace = 'default' } = config.metadata
  const found: Persisted<Claim>['metadata'][] = []
  for (const { claimName: name } of volumes) {
    const claim = await unlessNotFound(kube.get(persistentVolumeClaims, { namespace, name }))
    if (claim === undefined) continue
    refuseForeign(claim, config)
    found.push(claim.metadata)
  }
  return found
}

/** @throws Usage */
function refuseForeign(claim: Persisted<Claim>, { metadata }: Config): void {
  if (isClaimOf({ kind: 'VirtualMachineConfig', metadata }, claim.metadata)) return
  throw new Usage(
    `the claim ${claim.metadata.name} was not created for the config ${metadata.name}, and can contain other data. To replace it nevertheless, delete it first`,
  )
}

interface Replacement {
  /** As it was stored with templates that name the snapshot. */
  readonly config: Config
  readonly volumes: readonly SnapshotVolume[]
  /** The UIDs of the claims that existed before that. */
  readonly old: ReadonlySet<string>
  /** @throws Usage if nothing could replace the claims of these volumes any more */
  readonly refuseLost: (volumes: readonly SnapshotVolume[]) => Promise<void>
  readonly signal: AbortSignal
}

/**
 * Returns what to call until it is done: it deletes the old claims, all of them before it waits for one, since a VM
 * that starts with some of them has disks of different times. A pass of the controller that began earlier can create a
 * claim from the old template: so the first is deleted only after a pass has seen the new ones, which no older pass
 * outlives, and a claim that is not from the snapshot is deleted too, because another controller can have led before.
 *
 * All this can take minutes, in which others delete the snapshot, or change the templates back, as a GitOps tool does.
 * It ends with a Usage then, before it deletes a claim that nothing would replace.
 */
export function replaceClaims(
  { config, volumes, old, refuseLost, signal }: Replacement,
  kube: KubeClient,
  world: Pick<World, 'out'>,
): () => Promise<Progress> {
  const { namespace = 'default', name, generation = 0 } = config.metadata
  let isObserved = false

  const refuseChanged = ({ spec }: Config): void => {
    if (isDeepStrictEqual(spec.claimTemplates, config.spec.claimTemplates)) return
    throw new Usage(
      `another client, such as a GitOps tool, has changed the claim templates of ${name} meanwhile, so no more claims are deleted: pause it, or change what it applies`,
    )
  }

  const remove = async ({ metadata: { name: claimName, uid } }: Persisted<Claim>): Promise<void> => {
    try {
      await kube.delete(persistentVolumeClaims, { namespace, name: claimName }, { uid, signal })
    } catch (error) {
      // It is gone, or another one has its name by now, which is looked at next.
      if (isNotFound(error) || isConflict(error)) return
      throw error
    }
    world.out(`persistentvolumeclaim/${claimName} deleted\n`)
  }

  return async () => {
    const current = await kube.get(virtualMachineConfigs, { namespace, name }, { signal })
    refuseChanged(current)
    isObserved ||= (current.status?.observedGeneration ?? 0) >= generation
    if (!isObserved) return { state: 'in progress', words: 'waiting for the controller to read the claim templates' }
    const left: { readonly volume: SnapshotVolume; readonly claim: Persisted<Claim> }[] = []
    for (const volume of volumes) {
      const { claimName, volumeSnapshotName } = volume
      const claim = await unlessNotFound(kube.get(persistentVolumeClaims, { namespace, name: claimName }, { signal }))
      if (claim === undefined) continue
      if (old.has(claim.metadata.uid) || !isFrom(claim, volumeSnapshotName)) left.push({ volume, claim })
    }
    if (left.length === 0) return { state: 'done', words: 'no claim is left to delete' }
    const undeleted = left.filter(({ claim }) => claim.metadata.deletionTimestamp === undefined)
    for (const { claim } of undeleted) refuseForeign(claim, config)
    // Storage keeps a claim until the VM that uses it ends, and then all that it has written is lost.
    if (undeleted.length > 0) await refuseUsed(current, kube, signal)
    if (undeleted.length > 0) await refuseUntaken(current, kube, signal)
    // All of them before the first is deleted, and each again, since a deletion can take a while.
    if (undeleted.length > 0) await refuseLost(volumes)
    for (const { volume, claim } of undeleted) {
      await refuseLost([volume])
      await remove(claim)
    }
    return { state: 'in progress', words: `being deleted: ${left.map(({ claim }) => claim.metadata.name).join(', ')}` }
  }
}

const isFrom = ({ spec }: Persisted<Claim>, volumeSnapshotName: string): boolean =>
  spec?.dataSource?.kind === 'VolumeSnapshot' && spec.dataSource.name === volumeSnapshotName
