import { targetText, type Target } from '../api/object-preset.ts'
import { groupOf, type PresetTargetSpec } from '../api/preset-target.ts'
import { noNodes, type NodeCapabilities } from '../completion/nodes.ts'
import { isObjectPreset, isPreset, type Manifest } from '../inventory/manifests.ts'
import { createServedKinds } from '../inventory/served-kinds.ts'
import type { KubeClient } from '../runtime/kube.ts'
import {
  clusterObjectPresets,
  clusterVirtualMachinePresets,
  namespaces,
  objectPresets,
  presetTargets,
  resource,
  virtualMachinePresets,
  virtualMachines,
  type KubeObject,
} from '../runtime/resource.ts'
import { listAll, nodesOf, pages } from './cluster.ts'
import { Usage } from './failure.ts'
import { bytesOf, eachManifest, filesOf, readInputs } from './input.ts'
import type { Cluster } from './world.ts'

/** The current presets, labels of namespaces, and VMs. VMs are streamed. */
export interface State {
  readonly presets: readonly Manifest[]
  readonly nodes: NodeCapabilities
  readonly labelsOf: (namespace: string) => { readonly [key: string]: string }
  readonly vms: AsyncIterable<Manifest>
}

/** The current presets for objects of other kinds, and these objects, which are streamed. */
export interface ObjectState {
  readonly presets: readonly Manifest[]
  /** By `targetText`; what the cluster does with these kinds. */
  readonly targets: ReadonlyMap<string, Pick<PresetTargetSpec, 'namespaceSelector' | 'restricted'>>
  readonly labelsOf: State['labelsOf']
  readonly objects: (target: Target) => AsyncIterable<Manifest>
}

export async function objectStateOfCluster({ kube }: Cluster, namespace: string | undefined): Promise<ObjectState> {
  const presets = [
    ...(await listAll(kube, clusterObjectPresets)),
    ...(await listAll(kube, objectPresets, namespace)),
  ].map((preset) => ({ ...preset }))
  const targets = await listAll(kube, presetTargets)
  const kinds = createServedKinds(kube)
  return {
    presets,
    targets: new Map(targets.map(({ spec }) => [targetText(spec), spec])),
    labelsOf: await labelsIn(kube),
    async *objects(target) {
      await kinds.refresh([target])
      const served = kinds.get(target)
      // The code that reads the schema of the kind reports that it is not served.
      if (served === undefined || 'causes' in served) return
      const version = target.apiVersion.split('/').at(-1) ?? ''
      const of = resource<KubeObject>({
        group: groupOf(target.apiVersion),
        version,
        plural: served.resource,
        kind: target.kind,
        namespaced: served.kind.isNamespaced,
        // Also managedFields, which show what users have written.
        read: true,
      })
      for await (const page of pages(kube, of, namespace)) for (const object of page) yield { ...object }
    },
  }
}

export async function objectStateOfFiles(
  paths: readonly string[],
  namespace: string | undefined,
): Promise<ObjectState> {
  const presets: Manifest[] = []
  for await (const object of eachManifest(paths, nothing())) if (isObjectPreset(object)) presets.push(object)
  return {
    presets,
    targets: new Map(),
    labelsOf: namedOnly,
    async *objects(target) {
      for await (const object of eachManifest(paths, nothing())) {
        const isOfKind = object['apiVersion'] === target.apiVersion && object['kind'] === target.kind
        const isSelected = namespace === undefined || namespaceOf(object, namespace) === namespace
        if (isOfKind && isSelected) yield object
      }
    },
  }
}

const namedOnly = (name: string) => ({ 'kubernetes.io/metadata.name': name })

async function labelsIn(kube: KubeClient): Promise<State['labelsOf']> {
  const labels = new Map<string, { readonly [key: string]: string }>()
  for await (const page of pages(kube, namespaces)) {
    for (const { metadata } of page) labels.set(metadata.name, metadata.labels ?? {})
  }
  return (name) => labels.get(name) ?? namedOnly(name)
}

export async function stateOfCluster({ kube }: Cluster, namespace: string | undefined): Promise<State> {
  const presets: Manifest[] = []
  for (const resource of [clusterVirtualMachinePresets, virtualMachinePresets]) {
    for await (const page of pages(kube, resource, resource.namespaced ? namespace : undefined)) {
      presets.push(...page.map((preset) => ({ ...preset })))
    }
  }
  return {
    presets,
    nodes: await nodesOf(kube),
    labelsOf: await labelsIn(kube),
    vms: (async function* () {
      for await (const page of pages(kube, virtualMachines, namespace)) for (const vm of page) yield { ...vm }
    })(),
  }
}

/** The first pass reads only presets, and parses only files that mention them. */
export async function stateOfFiles(paths: readonly string[], namespace: string | undefined): Promise<State> {
  const presets: Manifest[] = []
  const files = (await Promise.all(paths.map((path) => filesOf(path)))).flat()
  for (const file of files) {
    if (!(await bytesOf(file, nothing())).includes('VirtualMachinePreset')) continue
    for await (const object of eachManifest([file], nothing())) if (isPreset(object)) presets.push(object)
  }
  return {
    presets,
    nodes: noNodes,
    labelsOf: namedOnly,
    vms: (async function* () {
      for await (const input of readInputs(files, nothing())) {
        if (input.kind === 'unreadable') throw new Usage(input.message)
        if (input.kind === 'xml' || input.object['kind'] !== 'VirtualMachine') continue
        const isSelected = namespace === undefined || namespaceOf(input.object, namespace) === namespace
        if (isSelected) yield input.object
      }
    })(),
  }
}

async function* nothing(): AsyncGenerator<never> {}

export const namespaceOf = ({ metadata }: Manifest, otherwise: string): string => {
  const named =
    typeof metadata === 'object' && metadata !== null && 'namespace' in metadata ? metadata.namespace : undefined
  return typeof named === 'string' ? named : otherwise
}
