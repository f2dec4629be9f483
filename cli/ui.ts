import { randomBytes } from 'node:crypto'
import { noNodes } from '../completion/nodes.ts'
import { clusterFailure, online } from './cluster.ts'
import { explainStored } from './explain.ts'
import { exitCodes, type ExitCode } from './failure.ts'
import { storedText } from './page-manifest.ts'
import { checkPresetText, impactOfText } from './page-preset.ts'
import { serveUi } from './ui-server.ts'
import type { Cluster, World } from './world.ts'

export interface UiFlags {
  readonly namespace?: string
  readonly port: number
}

/** `kubectl vm ui`: serves the page until it is ended. */
export async function ui(
  flags: UiFlags,
  cluster: Cluster,
  world: Pick<World, 'out' | 'err' | 'page' | 'interrupted'>,
): Promise<ExitCode> {
  const { access, server } = cluster
  const namespace = flags.namespace ?? cluster.namespace ?? 'default'
  const random = () => randomBytes(32).toString('base64url')
  const failing = (error: unknown) => {
    throw clusterFailure(error, cluster, '')
  }
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
      '/manifest': async (query) => storedText(query, cluster).catch(failing),
    },
    readers: {
      '/check-preset': async (text) => checkPresetText(text, namespace),
      '/impact': async (text) => impactOfText(text, cluster, namespace).catch(failing),
    },
  })
  world.out(`${serving.link}\n`)
  world.err('Open this link in a browser on this host; it can be used once. Press ^C to end.\n')
  await world.interrupted()
  serving.close()
  return exitCodes.fine
}
