import { isDeepStrictEqual } from 'node:util'
import { isClaimOf } from '../api/claim-template.ts'
import { filledAnnotation } from '../api/claim-volume.ts'
import type { VirtualMachineConfig } from '../api/config.ts'
import type { ObjectMeta } from '../api/object.ts'
import type { SnapshotVolume, VirtualMachineSnapshot } from '../api/snapshot.ts'
import { isFinished, type VirtualMachine } from '../api/virtual-machine.ts'
import { isConflict, isNotFound, unlessNotFound } from '../runtime/api-error.ts'
import { microTimestamp, systemClock } from '../runtime/clock.ts'
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
import { clusterLine } from './error-line.ts'
import { Usage } from './failure.ts'
import type { Progress } from './follow.ts'
import type { World } from './world.ts'

type Config = Persisted<VirtualMachineConfig>

interface Claim {
  readonly metadata: ObjectMeta
  readonly spec?: { readonly dataSource?: { readonly kind: string; readonly name: string } }
  readonly status?: { readonly phase?: string }
}

const persistentVolumeClaims = resource<Claim>({
  group: '',
  version: 'v1',
  plural: 'persistentvolumeclaims',
  kind: 'PersistentVolumeClaim',
  namespaced: true,
})

/** Of the VMs of a namespace: others decide how large the rest of their volumes is. */
const vmVolumes = resource<VirtualMachine>({
  ...virtualMachines,
  read: {
    metadata: { ...identity, creationTimestamp: true },
    spec: {
      volumes: { name: true, persistentVolumeClaim: { claimName: true, source: { claim: true } } },
      attachedVolumes: { name: true, persistentVolumeClaim: { claimName: true } },
    },
    status: { phase: true, attachedVolumes: { claimName: true } },
  },
})

/**
 * Storage keeps a claim that is deleted until the last VM that uses it ends, and then all that it has written is lost.
 * @throws Usage if the config has a VM, or is about to get one, or another VM uses one of the claims
 */
export async function refuseUsed(
  { metadata, status }: Config,
  volumes: readonly SnapshotVolume[],
  kube: KubeClient,
  signal?: AbortSignal,
): Promise<void> {
  const { namespace = 'default', name } = metadata
  const ownVm = `the VM of ${name} uses its claims: stop it first with \`kubectl vm stop ${name} --wait\``
  const { phase = 'Stopped', restart } = status ?? {}
  if (restart !== undefined || (phase !== 'Stopped' && phase !== 'Failed')) throw new Usage(ownVm)
  const claims = new Set(volumes.map(({ claimName }) => claimName))
  for await (const page of pages(kube, vmVolumes, namespace, signal)) {
    for (const vm of page) {
      const isOwn = vm.metadata.name === name
      // The status of the config can be older than its VM.
      if (isOwn && !isFinished(vm)) throw new Usage(ownVm)
      const used =
        claimsUsedBy(vm).find((claimName) => claims.has(claimName)) ?? (await findSource(vm, claims, kube, signal))
      if (used === undefined && !isOwn) continue
      const which = `the VM ${vm.metadata.name}`
      if (!isFinished(vm)) throw new Usage(`${which} uses the claim ${used}: stop it or detach the volume first`)
      const remedy = `delete it first with \`kubectl delete vm ${vm.metadata.name}\``
      throw new Usage(`${which} has ended, but its pod, which has its log, keeps its claims: ${remedy}`)
    }
  }
}

/**
 * Also those that are being detached. Attached volumes of a finished VM are free; its own are kept by Kubernetes for its
 * pod, which stays.
 */
function claimsUsedBy(vm: VirtualMachine): readonly string[] {
  const own = (vm.spec.volumes ?? []).map(({ persistentVolumeClaim: claim }) => claim?.claimName)
  const attached = [
    ...(vm.spec.attachedVolumes ?? []).map(({ persistentVolumeClaim: claim }) => claim.claimName),
    ...(vm.status?.attachedVolumes ?? []).map(({ claimName }) => claimName),
  ]
  return [...own, ...(isFinished(vm) ? [] : attached)].filter((claimName) => claimName !== undefined)
}

/** One of the claims that another one of the VM is filled from: the pod of a VM that was created afterwards has it not. */
async function findSource(
  { metadata, spec }: Persisted<VirtualMachine>,
  claims: ReadonlySet<string>,
  kube: KubeClient,
  signal?: AbortSignal,
): Promise<string | undefined> {
  const { namespace = 'default', creationTimestamp = '' } = metadata
  for (const { persistentVolumeClaim: claim } of spec.volumes ?? []) {
    const source = claim?.source?.claim?.claimName
    if (claim === undefined || source === undefined || !claims.has(source)) continue
    const options = signal === undefined ? {} : { signal }
    const filled = await unlessNotFound(kube.get(persistentVolumeClaims, { namespace, name: claim.claimName }, options))
    const filledAt = Date.parse(filled?.metadata.annotations?.[filledAnnotation] ?? '')
    if (!(filledAt < Date.parse(creationTimestamp))) return source
  }
  return undefined
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

/**
 * When a restore last found claims missing. Any change of the config leads to a pass of the controller, which creates
 * them: it does not watch claims.
 */
const restoredAtAnnotation = 'virtset.io/restored-at'

/** Nothing can be restored from the snapshot any more. */
export class SnapshotLost extends Usage {}

interface Replacement {
  /** As it was stored with templates that name the snapshot. */
  readonly config: Config
  readonly volumes: readonly SnapshotVolume[]
  /** The UIDs of the claims that existed before that. */
  readonly old: ReadonlySet<string>
  /** @throws SnapshotLost if nothing could replace the claims of these volumes any more */
  readonly refuseLost: (volumes: readonly SnapshotVolume[]) => Promise<void>
  readonly signal: AbortSignal
}

/**
 * Returns what to call until it is done: it deletes the old claims, all of them before it waits for one, since a VM
 * that starts with some of them has disks of different times. A pass of the controller that began earlier can create a
 * claim from the old template: so the first is deleted only after a pass has seen the new ones, which no older pass
 * outlives, and a claim that is not from the snapshot is deleted too, because another controller can have led before.
 * Then it waits until the controller has created each: while a claim from a VolumeSnapshot is not filled, the
 * external-snapshotter keeps the VolumeSnapshot.
 *
 * All this can take minutes, in which others delete the snapshot, or change the templates back, as a GitOps tool does.
 * It ends with a Usage then, before it deletes a claim that nothing would replace. A SnapshotLost states what became of
 * each claim.
 */
export function replaceClaims(
  { config, volumes, old, refuseLost, signal }: Replacement,
  kube: KubeClient,
  world: Pick<World, 'out'>,
): () => Promise<Progress> {
  const { namespace = 'default', name, generation = 0 } = config.metadata
  let isObserved = false
  let isRequested = false

  const refuseChanged = ({ spec }: Config): void => {
    if (isDeepStrictEqual(spec.claimTemplates, config.spec.claimTemplates)) return
    throw new Usage(
      `another client, such as a GitOps tool, has changed the claim templates of ${name} meanwhile, so no more claims are deleted: pause it, or change what it applies`,
    )
  }

  const read = async (): Promise<readonly VolumeClaim[]> => {
    const found: VolumeClaim[] = []
    for (const volume of volumes) {
      const at = { namespace, name: volume.claimName }
      const claim = await unlessNotFound(kube.get(persistentVolumeClaims, at, { signal }))
      found.push({ volume, claim, state: stateOf(claim, volume, old) })
    }
    return found
  }

  const refuseLostOf = async (some: readonly VolumeClaim[]): Promise<void> => {
    if (some.length === 0) return
    try {
      await refuseLost(some.map(({ volume }) => volume))
    } catch (error) {
      if (!(error instanceof SnapshotLost)) throw error
      throw new SnapshotLost(`${error.message}: ${outcome(await read(), name)}`)
    }
  }

  const remove = async (claim: Persisted<Claim>): Promise<void> => {
    const { name: claimName, uid } = claim.metadata
    try {
      await kube.delete(persistentVolumeClaims, { namespace, name: claimName }, { uid, signal })
    } catch (error) {
      // It is gone, or another one has its name by now, which is looked at next.
      if (isNotFound(error) || isConflict(error)) return
      throw error
    }
    world.out(clusterLine(`persistentvolumeclaim/${claimName} deleted`))
  }

  const requestClaims = async (): Promise<void> => {
    const annotations = { [restoredAtAnnotation]: microTimestamp(systemClock) }
    const body = { metadata: { uid: config.metadata.uid, annotations } }
    await kube.patch(virtualMachineConfigs, { namespace, name }, { type: 'merge', body }, { signal })
  }

  const untilCreated = async (found: readonly VolumeClaim[]): Promise<Progress> => {
    const missing = found.filter(({ state }) => state === 'deleted')
    if (missing.length === 0) {
      const unfilled = found.filter(({ state }) => state === 'not filled yet')
      const keep = `. Not filled yet: ${namesOf(unfilled)}; keep the snapshot until ${name} has started`
      return { state: 'done', words: `each claim is from the snapshot${unfilled.length === 0 ? '' : keep}` }
    }
    if (!isRequested) await requestClaims()
    isRequested = true
    const events = `kubectl describe vmc ${name}`
    return {
      state: 'in progress',
      words: `waiting for the controller to create ${namesOf(missing)} (events: ${events})`,
    }
  }

  return async () => {
    const current = await kube.get(virtualMachineConfigs, { namespace, name }, { signal })
    refuseChanged(current)
    const found = await read()
    // Also without a claim to delete: none is restored before the storage has filled it.
    await refuseLostOf(found.filter(({ state }) => state !== 'restored'))
    isObserved ||= (current.status?.observedGeneration ?? 0) >= generation
    if (!isObserved) return { state: 'in progress', words: 'waiting for the controller to read the claim templates' }
    const left = found.filter(({ state }) => !isReplaced(state))
    if (left.length === 0) return untilCreated(found)
    isRequested = false
    const undeleted = left.filter(({ state }) => state !== 'being deleted')
    for (const { claim } of undeleted) if (claim !== undefined) refuseForeign(claim, config)
    const volumesLeft = undeleted.map(({ volume }) => volume)
    for (const one of undeleted) {
      // Each again, since a deletion can take a while. A VM that starts in it could write to some disks from the snapshot
      // and to others from before, and only these would be replaced when it ends.
      await refuseLostOf([one])
      await refuseUntaken(current, kube, signal)
      await refuseUsed(current, volumesLeft, kube, signal)
      if (one.claim !== undefined) await remove(one.claim)
    }
    return { state: 'in progress', words: `being deleted: ${namesOf(left)}` }
  }
}

type ClaimState = 'unchanged' | 'not from the snapshot' | 'being deleted' | 'deleted' | 'not filled yet' | 'restored'

interface VolumeClaim {
  readonly volume: SnapshotVolume
  readonly claim: Persisted<Claim> | undefined
  readonly state: ClaimState
}

const namesOf = (claims: readonly VolumeClaim[]): string => claims.map(({ volume }) => volume.claimName).join(', ')

function stateOf(
  claim: Persisted<Claim> | undefined,
  { volumeSnapshotName }: SnapshotVolume,
  old: ReadonlySet<string>,
): ClaimState {
  if (claim === undefined) return 'deleted'
  if (claim.metadata.deletionTimestamp !== undefined) return 'being deleted'
  if (old.has(claim.metadata.uid)) return 'unchanged'
  if (!isFrom(claim, volumeSnapshotName)) return 'not from the snapshot'
  return claim.status?.phase === 'Bound' ? 'restored' : 'not filled yet'
}

/** Or will be, by the controller and the storage. */
const isReplaced = (state: ClaimState): boolean => ['deleted', 'not filled yet', 'restored'].includes(state)

const isFrom = ({ spec }: Persisted<Claim>, volumeSnapshotName: string): boolean =>
  spec?.dataSource?.kind === 'VolumeSnapshot' && spec.dataSource.name === volumeSnapshotName

/** What became of the claims, and what can be done without the snapshot. */
function outcome(claims: readonly VolumeClaim[], config: string): string {
  const states = claims.map(({ volume, state }) => `${volume.claimName} is ${state}`).join('; ')
  return claims.every(({ state }) => state === 'unchanged')
    ? `${states}. Start ${config} as it is, or restore it from another snapshot`
    : `${states}. Restore ${config} from another snapshot, or change its claim templates, before you start it`
}
