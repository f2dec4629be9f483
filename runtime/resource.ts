import type { VirtualMachineConfig } from '../api/config.ts'
import type { VirtualMachineGroup } from '../api/group.ts'
import type { VirtualMachine } from '../api/virtual-machine.ts'
import type { NodeCapabilitySet } from '../api/node-capability-set.ts'
import type { PublishedProfile } from '../api/node-profile.ts'
import { group, version } from '../api/object.ts'
import type { ObjectMeta } from '../api/object.ts'
import type { ObjectPreset } from '../api/object-preset.ts'
import type { Preset } from '../api/preset.ts'
import type { PresetTarget } from '../api/preset-target.ts'
import type { VirtualMachineSnapshot } from '../api/snapshot.ts'
import { withoutManagedFields, type ObjectParts } from './partial-json.ts'

/** Anything with Kubernetes' metadata. */
export interface KubeObject {
  readonly apiVersion?: string
  readonly kind?: string
  readonly metadata: ObjectMeta
}

/** As the API server stores it: with name, uid and resourceVersion. */
export type Persisted<T extends KubeObject> = T & {
  readonly metadata: { readonly name: string; readonly uid: string; readonly resourceVersion: string }
}

/** A kind of object, and its path in the API. */
export interface Resource<T extends KubeObject> {
  /** Empty for the core group. */
  readonly group: string
  readonly version: string
  readonly plural: string
  readonly kind: string
  readonly namespaced: boolean
  /** What is read of the objects. Without more, all but managedFields. */
  readonly read: ObjectParts | true
  /** Checks only the identity of an object: the API server has checked the rest by the schema of its kind. */
  readonly accepts: (value: unknown) => value is Persisted<T>
}

/** `name` within `namespace`; a cluster-scoped kind has no namespace. */
export interface ObjectRef {
  readonly namespace?: string
  readonly name: string
}

/** Of the metadata of an object, what each has. */
export const identity = { name: true, namespace: true, uid: true, resourceVersion: true } as const

/** Of the owners of an object, those that are read: one is ours, and users can add others. */
export const firstOwners = [64, true] as const

export function resource<T extends KubeObject>(
  of: Omit<Resource<T>, 'accepts' | 'read'> & { readonly read?: ObjectParts | true },
): Resource<T> {
  return { read: withoutManagedFields, ...of, accepts: (value): value is Persisted<T> => isPersisted(value) }
}

/** JSON Patch operations that fail if the object was replaced by another of its name, or has changed since. */
export function unchanged({ metadata }: Persisted<KubeObject>): object[] {
  return [
    { op: 'test', path: '/metadata/uid', value: metadata.uid },
    { op: 'replace', path: '/metadata/resourceVersion', value: metadata.resourceVersion },
  ]
}

/**
 * Whether `a` is older than `b`, both of one kind: Kubernetes 1.35 documents versions as decimal numbers that grow, and
 * etcd always had them.
 */
export function isOlderVersion(a: string, b: string): boolean {
  return BigInt(a) < BigInt(b)
}

/** `/apis/GROUP/VERSION/namespaces/NAMESPACE/PLURAL/NAME/SUBRESOURCE`, as far as given. */
export function pathOf(
  of: Resource<KubeObject>,
  at: {
    readonly namespace?: string | undefined
    readonly name?: string
    readonly subresource?: string | undefined
  } = {},
): string {
  const root = of.group ? `/apis/${of.group}/${of.version}` : `/api/${of.version}`
  const scope = of.namespaced && at.namespace !== undefined ? `/namespaces/${encodeURIComponent(at.namespace)}` : ''
  const object = at.name === undefined ? '' : `/${encodeURIComponent(at.name)}`
  return `${root}${scope}/${of.plural}${object}${at.subresource ? `/${at.subresource}` : ''}`
}

export function apiVersionOf(of: Pick<Resource<KubeObject>, 'group' | 'version'>): string {
  return of.group ? `${of.group}/${of.version}` : of.version
}

/** `NAMESPACE/NAME`, or `NAME` for a cluster-scoped object. */
export function keyOf(ref: { readonly namespace?: string; readonly name: string }): string {
  return ref.namespace === undefined ? ref.name : `${ref.namespace}/${ref.name}`
}

export function refOf(key: string): ObjectRef {
  const slash = key.indexOf('/')
  return slash < 0 ? { name: key } : { namespace: key.slice(0, slash), name: key.slice(slash + 1) }
}

function isPersisted(value: unknown): boolean {
  if (typeof value !== 'object' || value === null || !('metadata' in value)) return false
  const { metadata } = value
  return (
    typeof metadata === 'object' &&
    metadata !== null &&
    'name' in metadata &&
    typeof metadata.name === 'string' &&
    'uid' in metadata &&
    typeof metadata.uid === 'string' &&
    'resourceVersion' in metadata &&
    typeof metadata.resourceVersion === 'string'
  )
}

export const virtualMachines = resource<VirtualMachine>({
  group,
  version,
  plural: 'virtualmachines',
  kind: 'VirtualMachine',
  namespaced: true,
})

export const virtualMachineConfigs = resource<VirtualMachineConfig>({
  group,
  version,
  plural: 'virtualmachineconfigs',
  kind: 'VirtualMachineConfig',
  namespaced: true,
})

export const virtualMachineGroups = resource<VirtualMachineGroup>({
  group,
  version,
  plural: 'virtualmachinegroups',
  kind: 'VirtualMachineGroup',
  namespaced: true,
})

export const virtualMachineSnapshots = resource<VirtualMachineSnapshot>({
  group,
  version,
  plural: 'virtualmachinesnapshots',
  kind: 'VirtualMachineSnapshot',
  namespaced: true,
})

export const virtualMachinePresets = resource<Preset>({
  group,
  version,
  plural: 'virtualmachinepresets',
  kind: 'VirtualMachinePreset',
  namespaced: true,
})

export const clusterVirtualMachinePresets = resource<Preset>({
  group,
  version,
  plural: 'clustervirtualmachinepresets',
  kind: 'ClusterVirtualMachinePreset',
  namespaced: false,
})

export const namespaces = resource<KubeObject>({
  group: '',
  version: 'v1',
  plural: 'namespaces',
  kind: 'Namespace',
  namespaced: false,
})

export const nodeProfiles = resource<PublishedProfile>({
  group,
  version,
  plural: 'nodeprofiles',
  kind: 'NodeProfile',
  namespaced: false,
})

export const nodeCapabilitySets = resource<NodeCapabilitySet>({
  group,
  version,
  plural: 'nodecapabilitysets',
  kind: 'NodeCapabilitySet',
  namespaced: false,
})

export const presetTargets = resource<PresetTarget>({
  group,
  version,
  plural: 'presettargets',
  kind: 'PresetTarget',
  namespaced: false,
})

export const objectPresets = resource<ObjectPreset>({
  group,
  version,
  plural: 'objectpresets',
  kind: 'ObjectPreset',
  namespaced: true,
})

export const clusterObjectPresets = resource<ObjectPreset>({
  group,
  version,
  plural: 'clusterobjectpresets',
  kind: 'ClusterObjectPreset',
  namespaced: false,
})
