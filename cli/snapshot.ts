import { claimNameOf, isClaimOf, type ClaimTemplate } from '../api/claim-template.ts'
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
import { Usage, exitCodes, type ExitCode } from './failure.ts'
import { follow, type Progress } from './follow.ts'
import { orRefusal } from './refusal.ts'
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
interface Claim {
  readonly metadata: ObjectMeta
}

const persistentVolumeClaims = resource<Claim>({
  group: '',
  version: 'v1',
  plural: 'persistentvolumeclaims',
  kind: 'PersistentVolumeClaim',
  namespaced: true,
})

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
    world.out(`virtualmachinesnapshot.virtset.io/${metadata.name} created${isDryRun ? ' (dry run)' : ''}\n`)
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
  world: Streams,
): Promise<ExitCode> {
  const { kube } = cluster
  const namespace = namespaceOf(flags, cluster)
  const restore = async () => {
    const [snapshot, config] = await Promise.all([
      kube.get(virtualMachineSnapshots, { namespace, name: from }),
      kube.get(virtualMachineConfigs, { namespace, name }),
    ])
    const { phase = 'Stopped' } = config.status ?? {}
    if (phase !== 'Stopped' && phase !== 'Failed') {
      throw new Usage(`the VM of ${name} uses its claims: stop it first with \`kubectl vm stop ${name} --wait\``)
    }
    const templates = await templatesFrom(snapshot, config, kube)
    const replaced = await findClaims(snapshot, config, kube)
    const operations = [
      { op: 'test', path: '/metadata/resourceVersion', value: config.metadata.resourceVersion },
      { op: 'replace', path: '/spec/claimTemplates', value: templates },
    ]
    const isDryRun = flags.dryRun === true
    const ref = { namespace, name }
    await kube.patch(virtualMachineConfigs, ref, { type: 'json', body: operations }, isDryRun ? { dryRun: true } : {})
    const dryRun = isDryRun ? ' (dry run)' : ''
    // Only then: missing claims are created from the templates, at the latest at the next start.
    for (const { name: claimName, uid } of replaced) {
      const claim = { namespace, name: claimName }
      if (!isDryRun) await unlessNotFound(kube.delete(persistentVolumeClaims, claim, { uid }))
      world.out(`persistentvolumeclaim/${claimName} deleted${dryRun}\n`)
      const read = async (): Promise<Progress> => {
        const isGone = (await unlessNotFound(kube.get(persistentVolumeClaims, claim)))?.metadata.uid !== uid
        return isGone ? { state: 'done', words: 'deleted' } : { state: 'in progress', words: 'being deleted' }
      }
      if (!isDryRun && !(await follow(claimName, read, flags.timeout, world))) return exitCodes.refused
    }
    world.out(`virtualmachineconfig.virtset.io/${name} restored from ${from}${dryRun}\n`)
    return exitCodes.fine
  }
  return orRefusal(restore, cluster, world)
}

/**
 * The claims of the snapshot that exist. The claim of the template `a-b` of the config `c` has the name of that of the
 * template `a` of the config `b-c`.
 * @throws Usage if one was not created for the config
 */
async function findClaims(
  { status }: Snapshot,
  { metadata }: Config,
  kube: KubeClient,
): Promise<readonly Persisted<Claim>['metadata'][]> {
  const { namespace = 'default' } = metadata
  const found: Persisted<Claim>['metadata'][] = []
  for (const { claimName: name } of status?.volumes ?? []) {
    const claim = await unlessNotFound(kube.get(persistentVolumeClaims, { namespace, name }))
    if (claim === undefined) continue
    if (!isClaimOf({ kind: 'VirtualMachineConfig', metadata }, claim.metadata)) {
      throw new Usage(
        `the claim ${name} was not created for the config ${metadata.name}, and can contain other data. To replace it nevertheless, delete it first`,
      )
    }
    found.push(claim.metadata)
  }
  return found
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
      metadata: {
        namespace,
        name,
        ...(config.metadata.labels === undefined ? {} : { labels: config.metadata.labels }),
      },
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
  const { phase = 'Pending', volumes = [] } = snapshot.status ?? {}
  if (phase !== 'Ready') {
    throw new Usage(`the snapshot ${snapshot.metadata.name} is not ready: ${progressOf(snapshot).words}`)
  }
  // Its VolumeSnapshots are deleted with it.
  if (snapshot.metadata.deletionTimestamp !== undefined) {
    throw new Usage(`the snapshot ${snapshot.metadata.name} is being deleted`)
  }
  const templates = spec.claimTemplates ?? []
  const claims = new Map(templates.map((template) => [claimNameOf(template.name, metadata.name), template]))
  const foreign = volumes.filter(({ claimName }) => !claims.has(claimName))
  if (foreign.length > 0) {
    const named = foreign.map(({ name, claimName }) => `${claimName} (volume "${name}")`).join(', ')
    throw new Usage(
      `${metadata.name} has no claim template for ${named}, which the snapshot ${snapshot.metadata.name} has. ${byHand}`,
    )
  }
  const restoreSizes = await readRestoreSizes(snapshot, kube)
  const taken = new Map(volumes.map((volume): [string, SnapshotVolume] => [volume.claimName, volume]))
  return [...claims].map(([claimName, template]) => {
    const name = taken.get(claimName)?.volumeSnapshotName
    if (name === undefined) return template
    return { ...atLeast(template, restoreSizes.get(name)), source: { snapshot: { name } } }
  })
}

function atLeast(template: ClaimTemplate, storage: string | undefined): ClaimTemplate {
  const { spec } = template
  const { requests } = spec.resources
  if (storage === undefined || (quantityValue(storage) ?? 0n) <= (quantityValue(requests.storage) ?? 0n))
    return template
  return { ...template, spec: { ...spec, resources: { ...spec.resources, requests: { ...requests, storage } } } }
}

/**
 * The size that a claim must have to be made from each VolumeSnapshot.
 * @throws Usage if one cannot be used: a claim must not be deleted when nothing can replace it
 */
async function readRestoreSizes({ metadata, status }: Snapshot, kube: KubeClient): Promise<Map<string, string>> {
  const { namespace = 'default' } = metadata
  const sizes = new Map<string, string>()
  for (const volume of status?.volumes ?? []) {
    const { name, volumeSnapshotName } = volume
    const found = await unlessNotFound(kube.get(volumeSnapshots, { namespace, name: volumeSnapshotName }))
    const flaw = found === undefined ? 'has been deleted' : flawOf(found, volume, metadata.uid)
    if (flaw !== undefined) {
      const what = `the VolumeSnapshot ${volumeSnapshotName} of the volume "${name}"`
      throw new Usage(`${what} ${flaw}, so ${metadata.name} cannot be restored`)
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
