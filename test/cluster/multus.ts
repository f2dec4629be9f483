import {
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'

import { knownTool } from '../../cluster/binaries.ts'
import { cniConfigurationFile, hostCniPlugins, nodePaths } from '../../cluster/node.ts'
import type { Settings } from '../../cluster/settings.ts'
import { kubeconfigOf } from '../../cluster/up.ts'
import type { TestCluster } from './cluster.ts'

/** The first in the directory, so that containerd uses it. */
const configurationFile = '00-multus.conf'

const group = 'k8s.cni.cncf.io'
/** The kind whose objects are networks. */
const kind = {
  apiVersion: 'apiextensions.k8s.io/v1',
  kind: 'CustomResourceDefinition',
  metadata: { name: `network-attachment-definitions.${group}` },
  spec: {
    group,
    scope: 'Namespaced',
    names: {
      kind: 'NetworkAttachmentDefinition',
      plural: 'network-attachment-definitions',
      singular: 'network-attachment-definition',
    },
    versions: [
      {
        name: 'v1',
        served: true,
        storage: true,
        schema: {
          openAPIV3Schema: {
            type: 'object',
            properties: { spec: { type: 'object', properties: { config: { type: 'string' } } } },
          },
        },
      },
    ],
  },
}

/**
 * Lets Multus create the network of each new pod: that of the cluster, and those in the pod's annotation. Nothing
 * changes for pods without one.
 * @returns the function that ends it
 */
export async function useMultus(cluster: TestCluster, settings: Settings): Promise<() => Promise<void>> {
  const program = knownTool(settings, 'multus')
  if (program === undefined) throw new Error('Multus is not built: run `make test`')
  await cluster.apply(kind)
  await cluster.kubectl('wait', '--for=condition=Established', `crd/${kind.metadata.name}`, '--timeout=60s')
  const nodes = readdirSync(join(cluster.state, 'nodes'))
    .map((node) => nodePaths(cluster.state, node))
    .filter(({ cni }) => existsSync(join(cni, cniConfigurationFile)))
  for (const { cni, cniPlugins } of nodes) {
    mkdirSync(cniPlugins, { recursive: true })
    rmSync(join(cniPlugins, 'multus'), { force: true })
    symlinkSync(program, join(cniPlugins, 'multus'))
    const ofCluster: unknown = JSON.parse(readFileSync(join(cni, cniConfigurationFile), 'utf8'))
    const configuration = {
      cniVersion: '1.0.0',
      name: 'multus',
      type: 'multus',
      kubeconfig: kubeconfigOf(settings),
      binDir: hostCniPlugins,
      delegates: [ofCluster],
    }
    const unfinished = join(cni, 'multus.unfinished')
    writeFileSync(unfinished, JSON.stringify(configuration))
    renameSync(unfinished, join(cni, configurationFile))
  }
  return async () => {
    for (const { cni } of nodes) rmSync(join(cni, configurationFile), { force: true })
    await cluster.kubectl('delete', 'crd', kind.metadata.name, '--ignore-not-found', '--wait=false')
  }
}
