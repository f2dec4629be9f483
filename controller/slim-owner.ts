import { LRUCache } from 'lru-cache'
import type { VirtualMachineConfig } from '../api/config.ts'
import { selectorTooLarge } from '../api/group.ts'
import type { GroupSpec, VirtualMachineGroup } from '../api/group.ts'
import type { LabelSelector } from '../api/object.ts'
import type { VirtualMachineTemplate } from '../api/template.ts'
import { revisionOf } from '../presets/compile.ts'
import { identity, type KubeObject, type Persisted } from '../runtime/resource.ts'
import { pick, slimMetadata } from '../runtime/slim.ts'

/**
 * A config as the controller caches it, without its template and claims, which can have a megabyte. The whole config is
 * read when a VM or its claims are created.
 */
export type CachedConfig = Omit<VirtualMachineConfig, 'spec'> &
  Revised & {
    readonly spec?: VirtualMachineConfig['spec']
    /** Whether it has templates of claims, which are not cached either. */
    readonly hasClaims?: true
  }

/** A group as the controller caches it, without its template. */
export type CachedGroup = Omit<VirtualMachineGroup, 'spec'> &
  Revised & {
    readonly spec: Omit<GroupSpec, 'template'> & Partial<Pick<GroupSpec, 'template'>>
    /** Whether its VMs have claims, and so numbers. The templates of the claims are not cached. */
    readonly hasClaims?: true
    /** Whether the claims of VMs that are scaled in are deleted. */
    readonly deletesClaims?: true
    /** Its selector is larger than admission accepts, and not cached. It is handled as if it were paused. */
    readonly isTooLarge?: true
  }

/** What the controller reads of a config or group: of the metadata, only what it caches. */
export const readOwner = {
  apiVersion: true,
  kind: true,
  metadata: { ...identity, generation: true, deletionTimestamp: true },
  spec: true,
  status: true,
} as const

export const isPaused = ({ spec, isTooLarge }: CachedGroup): boolean => spec.paused === true || isTooLarge === true

/**
 * Whether the group adopts VMs. One with claims does not: a VM that it did not create has no number, and none of its
 * claims.
 */
export const isAdopting = (group: CachedGroup): boolean => !isPaused(group) && group.hasClaims !== true

interface Revised {
  /** The hash of the template; absent in an object as the API server sends it. */
  readonly revision?: string
}

/** What is computed of a spec, until it changes. */
interface Derived {
  readonly generation: number | undefined
  readonly revision: string
  readonly selector?: LabelSelector
}

/** More objects than this are hashed at each change of their metadata or status. */
const maxDerived = 20_000

interface Slimmer<T extends KubeObject> {
  readonly slim: (object: Persisted<T>) => Persisted<T>
  /** The object with this uid was deleted. */
  readonly forget: (uid: string) => void
}

export function configSlimmer(): Slimmer<CachedConfig> {
  const { derived, forget } = createDerived()
  const slim = (config: Persisted<CachedConfig>): Persisted<CachedConfig> => {
    if (config.spec === undefined) return config
    const { revision } = derived(config, config.spec.template)
    return {
      ...pick(config, 'apiVersion', 'kind', 'status'),
      metadata: slimMetadata(config.metadata, 'generation', 'deletionTimestamp'),
      revision,
      ...(config.spec.claimTemplates === undefined ? {} : { hasClaims: true }),
    }
  }
  return { slim, forget }
}

/** The selector is the same object until it changes, so it is compiled once. */
export function groupSlimmer(): Slimmer<CachedGroup> {
  const { derived, forget } = createDerived()
  const slim = (group: Persisted<CachedGroup>): Persisted<CachedGroup> => {
    const { template } = group.spec
    if (template === undefined) return group
    const isTooLarge = selectorTooLarge(group.spec.selector ?? {}) !== undefined
    const { revision, selector = {} } = derived(group, template, isTooLarge ? {} : group.spec.selector)
    return {
      ...pick(group, 'apiVersion', 'kind', 'status'),
      metadata: slimMetadata(group.metadata, 'generation', 'deletionTimestamp'),
      spec: { ...pick(group.spec, 'replicas', 'paused', 'minAvailable'), selector },
      revision,
      ...((group.spec.claimTemplates ?? []).length === 0 ? {} : { hasClaims: true }),
      ...(group.spec.persistentVolumeClaimRetentionPolicy?.whenScaled === 'Delete' ? { deletesClaims: true } : {}),
      ...(isTooLarge ? { isTooLarge } : {}),
    }
  }
  return { slim, forget }
}

/**
 * The API server increments the generation when the spec changes, so what is derived from it is stored by generation.
 */
function createDerived() {
  const stored = new LRUCache<string, Derived>({ max: maxDerived })
  const derived = (
    { metadata: { uid, generation } }: Persisted<Pick<CachedConfig, 'metadata'>>,
    template: VirtualMachineTemplate,
    selector?: LabelSelector,
  ): Derived => {
    const known = stored.get(uid)
    if (known !== undefined && generation !== undefined && known.generation === generation) return known
    const found = { generation, revision: revisionOf(template), ...(selector === undefined ? {} : { selector }) }
    stored.set(uid, found)
    return found
  }
  return { derived, forget: (uid: string) => void stored.delete(uid) }
}
