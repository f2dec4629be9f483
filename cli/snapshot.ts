import { claimNameOf, type ClaimTemplate } from '../api/claim-template.ts'
import type { VirtualMachineConfig } from '../api/config.ts'
import { apiVersion, type ObjectMeta } from '../api/object.ts'
import { quantityValue } from '../api/quantity.ts'
import { quiescedCondition, type SnapshotVolume, type VirtualMachineSnapshot } from '../api/snapshot.ts'
import type { VirtualMachineTemplate } from '../api/template.ts'
import { unlessNotFound } from '../runtime/api-error.ts'
import type { KubeClient } from '../runtime/kube.ts'
import {
  type Persisted,
  resource,
  virtualMachineConfigs,
  virtualMachines,
  virtualMachineSnapshots,
} from '../runtime/resource.ts'
import { clusterLine, errorLine } from './error-line.ts'
import { Usage, exitCodes, type ExitCode } from './failure.ts'
import { follow, type Progress } from './follow.ts'
import { orRefusal } from './refusal.ts'
import { findClaims, refuseUntaken, refuseUsed, replaceClaims, SnapshotLost } from './replace-claims.ts'
import type { Cluster, World } from './world.ts'

interface CommonFlags {
  readonly namespace?: string
  /** Seconds. */
  readonly timeout: number
  readonly dryRun?: true
}

export interface SnapshotFlags extends CommonFlags {
  readonly name?: string
  readonly class?: string
  readonly wait?: true
}

export interface RestoreFlags extends CommonFlags {}

export interface CloneFlags extends Omit<CommonFlags, 'timeout'> {}

type Snapshot = Persisted<VirtualMachineSnapshot>
type Config = Persisted<VirtualMachineConfig>

interface VolumeSnapshot {
  readonly metadata: ObjectMeta
  readonly spec?: { readonly source?: { readonly persistentVolumeClaimName?: string } }
  readonly status?: {
    readonly readyToUse?: boolean
    readonly restoreSize?: string
    readonly error?: { readonly message?: string }
  }
}

const volumeSnapshots = resource<VolumeSnapshot>({
  group: 'snapshot.storage.k8s.io',
  version: 'v1',
  plural: 'volumesnapshots',
  kind: 'VolumeSnapshot',
  namespaced: true,
})

type Streams = Pick<World, 'out' | 'err' | 'now'>

const namespaceOf = (flags: { readonly namespace?: string }, cluster: Cluster): string =>
  flags.namespace ?? cluster.namespace ?? 'default'

/** Creates a snapshot of the VM of a config, or of a VM; with `--wait`, shows its progress. */
export async function takeSnapshot(
  source: string,
  flags: SnapshotFlags,
  cluster: Cluster,
  world: Streams,
): Promise<ExitCode> {
  const { kube } = cluster
  const namespace = namespaceOf(flags, cluster)
  const take = async () => {
    const at = { namespace, name: source }
    const config = await unlessNotFound(kube.get(virtualMachineConfigs, at))
    if (config === undefined)
      await orNone(kube.get(virtualMachines, at), `no VM and no config ${source} in ${namespace}`)
    const snapshot: VirtualMachineSnapshot = {
      apiVersion,
      kind: 'VirtualMachineSnapshot',
      metadata: { namespace, ...(flags.name === undefined ? { generateName: `${source}-` } : { name: flags.name }) },
      spec: {
        source: { kind: config === undefined ? 'VirtualMachine' : 'VirtualMachineConfig', name: source },
        ...(flags.class === undefined ? {} : { volumeSnapshotClassName: flags.class }),
      },
    }
    const isDryRun = flags.dryRun === true
    const { metadata } = await kube.create(virtualMachineSnapshots, snapshot, isDryRun ? { dryRun: true } : {})
    world.out(clusterLine(`virtualmachinesnapshot.virtset.io/${metadata.name} created${isDryRun ? ' (dry run)' : ''}`))
    if (flags.wait !== true || isDryRun) return exitCodes.fine
    const read = async () => progressOf(await kube.get(virtualMachineSnapshots, { namespace, name: metadata.name }))
    return (await follow(metadata.name, read, flags.timeout, world)) ? exitCodes.fine : exitCodes.refused
  }
  return orRefusal(take, cluster, world)
}

export function progressOf({ status = {} }: Pick<VirtualMachineSnapshot, 'status'>): Progress {
  const { phase = 'Pending', conditions = [] } = status
  const condition = (type: string) => conditions.find((each) => each.type === type)
  const quiesced = condition(quiescedCondition)
  const why = condition('Ready')?.message ?? ''
  if (phase === 'Ready') {
    return { state: 'done', words: `Ready${quiesced ? `; quiesced: ${quiesced.status} (${quiesced.reason})` : ''}` }
  }
  return { state: phase === 'Failed' ? 'failed' : 'in progress', words: why === '' ? phase : `${phase} (${why})` }
}

/** Replaces the claims of a config by claims from a snapshot of it. After a failure, it can be repeated. */
export async function restoreSnapshot(
  [name, from]: readonly [config: string, snapshot: string],
  flags: RestoreFlags,
  cluster: Cluster,
  world: Streams & Pick<World, 'interrupted'>,
): Promise<ExitCode> {
  const { kube } = cluster
  const namespace = namespaceOf(flags, cluster)
  const restore = async () => {
    const [snapshot, config] = await Promise.all([
      kube.get(virtualMachineSnapshots, { namespace, name: from }),
      kube.get(virtualMachineConfigs, { namespace, name }),
    ])
    const { volumes = [] } = snapshot.status ?? {}
    await refuseUsed(config, volumes, kube)
    await refuseUntaken(config, kube)
    const templates = await templatesFrom(snapshot, config, kube)
    const replaced = await findClaims(volumes, config, kube)
    const body = [
      { op: 'test', path: '/metadata/resourceVersion', value: config.metadata.resourceVersion },
      { op: 'replace', path: '/spec/claimTemplates', value: templates },
    ]
    const ref = { namespace, name }
    if (flags.dryRun === true) {
      await kube.patch(virtualMachineConfigs, ref, { type: 'json', body }, { dryRun: true })
      for (const claim of replaced) world.out(clusterLine(`persistentvolumeclaim/${claim.name} deleted (dry run)`))
      world.out(`virtualmachineconfig.virtset.io/${name} restored from ${from} (dry run)\n`)
      return exitCodes.fine
    }
    // Some claims can be deleted and others not.
    const unfinished = `the restore of ${name} is not complete: run the command again`
    const interruption = new AbortController()
    const { signal } = interruption
    void world.interrupted().then(() => interruption.abort(new Usage(`interrupted; ${unfinished}`)))
    // Before the claims are deleted: missing claims are created from the templates.
    const changed = await kube.patch(virtualMachineConfigs, ref, { type: 'json', body }, { signal })
    try {
      const old = new Set(replaced.map(({ uid }) => uid))
      const refuseLost = async (some: readonly SnapshotVolume[]) => {
        const current = await unlessNotFound(kube.get(virtualMachineSnapshots, { namespace, name: from }, { signal }))
        if (current?.metadata.uid !== snapshot.metadata.uid) {
          throw new SnapshotLost(`the snapshot ${from} has been deleted`)
        }
        refuseUnready(current)
        await readRestoreSizes(snapshot, some, kube, signal)
      }
      const replace = replaceClaims({ config: changed, volumes, old, refuseLost, signal }, kube, world)
      const isDone = await follow(name, replace, flags.timeout, world, { unfinished, signal })
      if (!isDone) return exitCodes.refused
    } catch (error) {
      if (!signal.aborted && !(error instanceof SnapshotLost)) world.err(errorLine(unfinished))
      throw error
    }
    world.out(`virtualmachineconfig.virtset.io/${name} restored from ${from}\n`)
    return exitCodes.fine
  }
  return orRefusal(restore, cluster, world)
}

/** Creates a config like that of a snapshot, with claims from the snapshot. */
export async function cloneSnapshot(
  [from, name]: readonly [snapshot: string, config: string],
  flags: CloneFlags,
  cluster: Cluster,
  world: Streams,
): Promise<ExitCode> {
  const { kube } = cluster
  const namespace = namespaceOf(flags, cluster)
  const clone = async () => {
    const snapshot = await kube.get(virtualMachineSnapshots, { namespace, name: from })
    const { source } = snapshot.spec
    const config = await orNone(
      kube.get(virtualMachineConfigs, { namespace, name: source.name }),
      `${from} was taken of ${source.name}, which has no VirtualMachineConfig in ${namespace}. ${byHand}`,
    )
    const { spec } = config
    const claimTemplates = await templatesFrom(snapshot, config, kube)
    const copy: VirtualMachineConfig = {
      apiVersion,
      kind: 'VirtualMachineConfig',
      // GitOps tools would take it for one of their own objects by its labels and annotations, and delete it. The VM has
      // those of the template.
      metadata: { namespace, name },
      spec: { ...spec, template: withoutIdentity(spec.template), claimTemplates },
    }
    const isDryRun = flags.dryRun === true
    await kube.create(virtualMachineConfigs, copy, isDryRun ? { dryRun: true } : {})
    world.out(`virtualmachineconfig.virtset.io/${name} created from ${from}${isDryRun ? ' (dry run)' : ''}\n`)
    return exitCodes.fine
  }
  return orRefusal(clone, cluster, world)
}

const byHand = 'Create a config whose claim templates have `source.snapshot` (see docs/snapshots.md)'

/**
 * The claim templates of a config, each with the snapshot of its claim as its source, and not smaller than that: the
 * claim can have grown.
 * @throws Usage
 */
async function templatesFrom(
  snapshot: Snapshot,
  { metadata, spec }: Config,
  kube: KubeClient,
): Promise<readonly ClaimTemplate[]> {
  refuseUnready(snapshot)
  const { volumes = [] } = snapshot.status ?? {}
  const templates = spec.claimTemplates ?? []
  const claims = new Map(templates.map((template) => [claimNameOf(template.name, metadata.name), template]))
  const foreign = volumes.filter(({ claimName }) => !claims.has(claimName))
  if (foreign.length > 0) {
    const named = foreign.map(({ name, claimName }) => `${claimName} (volume "${name}")`).join(', ')
    throw new Usage(
      `${metadata.name} has no claim template for ${named}, which the snapshot ${snapshot.metadata.name} has. ${byHand}`,
    )
  }
  const restoreSizes = await readRestoreSizes(snapshot, volumes, kube)
  const taken = new Map(volumes.map((volume): [string, SnapshotVolume] => [volume.claimName, volume]))
  return [...claims].map(([claimName, template]) => {
    const name = taken.get(claimName)?.volumeSnapshotName
    if (name === undefined) return template
    return { ...atLeast(template, restoreSizes.get(name)), source: { snapshot: { name } } }
  })
}

/** @throws SnapshotLost */
function refuseUnready(snapshot: Snapshot): void {
  const { metadata, status } = snapshot
  if (status?.phase !== 'Ready') {
    throw new SnapshotLost(`the snapshot ${metadata.name} is not ready: ${progressOf(snapshot).words}`)
  }
  // Its VolumeSnapshots are deleted with it.
  if (metadata.deletionTimestamp !== undefined) throw new SnapshotLost(`the snapshot ${metadata.name} is being deleted`)
}

function atLeast(template: ClaimTemplate, storage: string | undefined): ClaimTemplate {
  const { spec } = template
  const { requests } = spec.resources
  if (storage === undefined || (quantityValue(storage) ?? 0n) <= (quantityValue(requests.storage) ?? 0n))
    return template
  return { ...template, spec: { ...spec, resources: { ...spec.resources, requests: { ...requests, storage } } } }
}

/**
 * The size that a claim must have to be made from the VolumeSnapshot of each of these volumes.
 * @throws SnapshotLost if one cannot be used: a claim must not be deleted when nothing can replace it
 */
async function readRestoreSizes(
  { metadata }: Snapshot,
  volumes: readonly SnapshotVolume[],
  kube: KubeClient,
  signal?: AbortSignal,
): Promise<Map<string, string>> {
  const { namespace = 'default' } = metadata
  const options = signal === undefined ? {} : { signal }
  const sizes = new Map<string, string>()
  for (const volume of volumes) {
    const { name, volumeSnapshotName } = volume
    const found = await unlessNotFound(kube.get(volumeSnapshots, { namespace, name: volumeSnapshotName }, options))
    const flaw = found === undefined ? 'has been deleted' : flawOf(found, volume, metadata.uid)
    if (flaw !== undefined) {
      const what = `the VolumeSnapshot ${volumeSnapshotName} of the volume "${name}"`
      throw new SnapshotLost(`${what} ${flaw}, so ${metadata.name} cannot be restored`)
    }
    const size = found?.status?.restoreSize
    if (size !== undefined) sizes.set(volumeSnapshotName, size)
  }
  return sizes
}

/** Why the storage cannot make the claim from it, or would make another one; undefined if it can. */
function flawOf(
  { metadata, spec, status }: VolumeSnapshot,
  { claimName }: SnapshotVolume,
  snapshotUID: string,
): string | undefined {
  if (metadata.deletionTimestamp !== undefined) return 'is being deleted'
  // One of the same name can have taken its place.
  const isOwned = (metadata.ownerReferences ?? []).some(({ uid }) => uid === snapshotUID)
  if (!isOwned) return 'does not belong to the snapshot'
  if (spec?.source?.persistentVolumeClaimName !== claimName) return `is not of the claim ${claimName}`
  if (status?.readyToUse === true) return undefined
  return ['is not ready to use', status?.error?.message].filter(Boolean).join(': ')
}

/** Without what must differ between two VMs. */
function withoutIdentity(template: VirtualMachineTemplate): VirtualMachineTemplate {
  const { uuid: _, genid: __, devices, ...domain } = template.spec.domain
  const interfaces = devices?.interfaces?.map(({ mac: ___, ...rest }) => rest)
  const own = devices === undefined ? {} : { devices: { ...devices, ...(interfaces ? { interfaces } : {}) } }
  return { ...template, spec: { ...template.spec, domain: { ...domain, ...own } } }
}

async function orNone<T>(response: Promise<T>, message: string): Promise<T> {
  const found = await unlessNotFound(response)
  if (found === undefined) throw new Usage(message)
  return found
}
