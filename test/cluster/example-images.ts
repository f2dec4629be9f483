import { run } from '../../cluster/command.ts'
import type { TestCluster } from './cluster.ts'

/**
 * Images that `make up` has put on the nodes. The cache of images also has those of other checkouts, which no node has.
 */

/** The volume `root` of the example VM `from-image`: a small Linux. */
export async function linuxVolume(cluster: TestCluster): Promise<{ readonly name: 'root'; readonly image: object }> {
  const example = await readJson(cluster, '-n', 'default', 'get', 'vm', 'from-image')
  const [root] = example.spec.volumes
  return root
}

/** The name of an image with the disk of the demo guest. */
export async function demoDisk(cluster: TestCluster): Promise<string> {
  const { items }: { items: Node[] } = await readJson(cluster, 'get', 'nodes')
  const [first = [], ...others] = items.map(({ status }) => (status.images ?? []).flatMap(({ names }) => names ?? []))
  // Without its digest.
  const isDemo = (name: string) => /\/demo-disk:[^@]+$/.test(name)
  const found = first.filter(isDemo).find((name) => others.every((names) => names.includes(name)))
  if (found === undefined) throw new Error('no image demo-disk is on all nodes: run `make up`')
  return found
}

interface Node {
  readonly status: { readonly images?: readonly { readonly names?: readonly string[] }[] }
}

async function readJson({ command: [kubectl = '', ...flags] }: TestCluster, ...rest: readonly string[]) {
  return JSON.parse(await run([kubectl, ...flags, ...rest, '-o', 'json']))
}
