import { isDnsSubdomain } from '../api/label.ts'
import {
  virtualMachineConfigs,
  virtualMachines,
  virtualMachineSnapshots,
  type KubeObject,
  type Resource,
} from '../runtime/resource.ts'
import type { Flags } from './flags.ts'
import type { NamedKind } from './name-argument.ts'
import { clusterOf } from './session.ts'
import type { World } from './world.ts'

const resourceOf: { readonly [K in NamedKind]: Resource<KubeObject> } = {
  virtualMachines,
  virtualMachineConfigs,
  virtualMachineSnapshots,
}

/** A longer list would not help a user to choose. */
const most = 500
/** A shell waits for it. */
const patienceMs = 3000

/**
 * The names of objects in the namespace of the flags or the context, as far as they can be read. Text that is not a
 * valid name is left out: shells insert candidates into a command line, and the API server can be hostile.
 */
export async function namesOf(
  kinds: readonly NamedKind[],
  flags: Pick<Flags, 'kubeconfig' | 'context'> & { readonly namespace?: string },
  world: Pick<World, 'cluster'>,
): Promise<readonly string[]> {
  const { kube, namespace: own = 'default' } = await clusterOf(flags, world, '')
  const options = { namespace: flags.namespace ?? own, limit: most, signal: AbortSignal.timeout(patienceMs) }
  const lists = await Promise.allSettled(kinds.map((kind) => kube.list(resourceOf[kind], options)))
  await kube.close()
  const names = lists.flatMap((list) => (list.status === 'fulfilled' ? list.value.items : []))
  return [...new Set(names.map(({ metadata }) => metadata.name))].filter(isDnsSubdomain).toSorted()
}
