import { randomBytes } from 'node:crypto'
import { LRUCache } from 'lru-cache'
import { noNodes, type NodeCapabilities } from '../completion/nodes.ts'
import { clusterFailure, nodesOf, online } from './cluster.ts'
import { explainStored } from './explain.ts'
import { exitCodes, type ExitCode } from './failure.ts'
import { storedText } from './page-manifest.ts'
import { checkPresetText, impactOfText } from './page-preset.ts'
import { completeText } from './page-vm.ts'
import { schemaFor } from './schema.ts'
import { serveUi } from './ui-server.ts'
import type { VmRef } from './vm-session.ts'
import type { Cluster, World } from './world.ts'

export interface UiFlags {
  readonly namespace?: string
  readonly port: number
}

/** A text is completed whenever its author pauses, and the profiles of a large cluster have megabytes. */
const nodesFreshMs = 60_000

/** `kubectl vm ui`: serves the page until it is ended. @param vm that the page shows first */
export async function ui(
  flags: UiFlags,
  cluster: Cluster,
  world: Pick<World, 'out' | 'err' | 'page' | 'interrupted'>,
  vm?: VmRef,
): Promise<ExitCode> {
  const { access, server } = cluster
  const namespace = flags.namespace ?? cluster.namespace ?? 'default'
  const random = () => randomBytes(32).toString('base64url')
  const failing = (error: unknown) => {
    throw clusterFailure(error, cluster, '')
  }
  const settings = { allowHostReach: false, skipRules: false, namespace }
  const nodes = new LRUCache<string, NodeCapabilities>({
    max: 1,
    ttl: nodesFreshMs,
    fetchMethod: () => nodesOf(cluster.kube),
  })
  const serving = await serveUi({
    access,
    page: await world.page(),
    port: flags.port,
    secret: random(),
    link: random(),
    root: random(),
    answers: {
      '/cluster': async () => ({ server, namespace, isNamespaceChosen: flags.namespace !== undefined }),
      // Presets are read each time, because they change while the page is open. No capability of a node is used.
      '/explain': async (query) =>
        explainStored(`${query.get('namespace')}/${query.get('name')}`, {
          namespace,
          scopes: online(cluster, noNodes),
          cluster,
        }).catch(failing),
      '/schema': async (query) => schemaFor(query.get('kind') ?? ''),
      '/manifest': async (query) => storedText(query, cluster).catch(failing),
    },
    readers: {
      '/check-preset': async (text) => checkPresetText(text, namespace),
      '/complete': async (text) => {
        const capabilities = (await nodes.fetch('').catch(failing)) ?? noNodes
        return completeText(text, { ...settings, scopes: online(cluster, capabilities) }).catch(failing)
      },
      '/impact': async (text) => impactOfText(text, cluster, namespace).catch(failing),
    },
  })
  // A browser passes the fragment on to the page.
  const place = vm === undefined ? '' : `#/vm/${encodeURIComponent(vm.namespace)}/${encodeURIComponent(vm.name)}`
  world.out(`${serving.link}${place}\n`)
  world.err('Open this link in a browser on this host; it can be used once. Press ^C to end.\n')
  await world.interrupted()
  serving.close()
  return exitCodes.fine
}
