import { noNodes, type NodeCapabilities } from '../completion/nodes.ts'
import { isPreset, type Manifest } from '../inventory/manifests.ts'
import {
  clusterVirtualMachinePresets,
  namespaces,
  virtualMachinePresets,
  virtualMachines,
} from '../runtime/resource.ts'
import { nodesOf, pages } from './cluster.ts'
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

export async function stateOfCluster({ kube }: Cluster, namespace: string | undefined): Promise<State> {
  const presets: Manifest[] = []
  for (const resource of [clusterVirtualMachinePresets, virtualMachinePresets]) {
    for await (const page of pages(kube, resource, resource.namespaced ? namespace : undefined)) {
      presets.push(...page.map((preset) => ({ ...preset })))
    }
  }
  const labels = new Map<string, { readonly [key: string]: string }>()
  for await (const page of pages(kube, namespaces)) {
    for (const { metadata } of page) labels.set(metadata.name, metadata.labels ?? {})
  }
  return {
    presets,
    nodes: await nodesOf(kube),
    labelsOf: (name) => labels.get(name) ?? { 'kubernetes.io/metadata.name': name },
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
    labelsOf: (name) => ({ 'kubernetes.io/metadata.name': name }),
    vms: (async function* () {
      for await (const input of readInputs(files, nothing())) {
        if (input.kind === 'unreadable') throw new Usage(input.message)
        if (input.kind === 'xml' || input.object['kind'] !== 'VirtualMachine') continue
        const isSelected = namespace === undefined || namespaceOf(input.object, 'default') === namespace
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
