import type { VirtualMachine } from '../api/virtual-machine.ts'
import { group } from '../api/object.ts'
import { isRecord } from '../api/schema.ts'
import { nodeCapabilities, noNodes, type NodeCapabilities } from '../completion/nodes.ts'
import { exemptionsToAuthorize } from '../presets/exclude.ts'
import { ApiError, ApiUnreachable, isForbidden, isNotFound } from '../runtime/api-error.ts'
import type { KubeClient } from '../runtime/kube.ts'
import {
  clusterVirtualMachinePresets,
  namespaces,
  nodeCapabilitySets,
  nodeProfiles,
  virtualMachinePresets,
  type KubeObject,
  type Persisted,
  type Resource,
} from '../runtime/resource.ts'
import { Usage, errorText, withoutCluster } from './failure.ts'
import { resolveProfiles } from '../inventory/capability-sets.ts'
import { inventoryOf, presetsOf } from '../inventory/manifests.ts'
import type { Scope, Scopes } from './scope.ts'
import type { Cluster } from './world.ts'

/** Others decide how large their objects are: up to 1.5 MiB each, and several times as much in memory. */
const pageSize = 100

/** Lists objects in pages, so that memory does not grow with their number. */
export async function* pages<T extends KubeObject>(
  kube: KubeClient,
  of: Resource<T>,
  namespace?: string,
  signal?: AbortSignal,
): AsyncGenerator<readonly Persisted<T>[]> {
  let next: string | undefined
  do {
    const list = await kube.list(of, {
      limit: pageSize,
      ...(namespace === undefined ? {} : { namespace }),
      ...(signal === undefined ? {} : { signal }),
      ...(next === undefined ? {} : { continue: next }),
    })
    yield list.items
    next = list.continue
  } while (next !== undefined)
}

/** The presets and namespaces of the cluster; each namespace is read once, when it is first used. */
export function online({ kube }: Cluster, capabilities: NodeCapabilities): Scopes {
  const known = new Map<string, Promise<Scope>>()
  const clusterPresets = once(() => listAll(kube, clusterVirtualMachinePresets))
  const userInfo = once(() => whoAmI(kube))
  const read = async (name: string): Promise<Scope> => {
    const [labels, ofCluster, ofNamespace, user] = await Promise.all([
      labelsOf(kube, name),
      clusterPresets(),
      listAll(kube, virtualMachinePresets, name),
      userInfo(),
    ])
    const presets = presetsOf(
      [...ofCluster, ...ofNamespace].map((preset) => ({ ...preset })),
      name,
    )
    return {
      inventory: inventoryOf(presets, { labels, capabilities }),
      ...(user === undefined ? {} : { userInfo: user }),
      exempt: (vm: VirtualMachine) => {
        const { labels: own = {}, annotations } = vm.metadata
        const ids = exemptionsToAuthorize(annotations, presets.candidates.select(own, { name, labels }))
        return ids.length === 0 ? undefined : exemptOf(kube, ids, presetResources)
      },
    }
  }
  return {
    of(name) {
      const found = known.get(name) ?? read(name)
      known.set(name, found)
      return found
    },
  }
}

/**
 * The capabilities of the cluster's nodes; the bundled ones if they are not published or the user cannot read them.
 */
export async function nodesOf(kube: KubeClient): Promise<NodeCapabilities> {
  try {
    const profiles = await listAll(kube, nodeProfiles)
    // After the profiles: a set exists before a profile names it.
    const isShared = profiles.some(({ spec }) => 'capabilitySetName' in spec)
    const sets = isShared ? await listAll(kube, nodeCapabilitySets) : []
    return nodeCapabilities(resolveProfiles(profiles, sets))
  } catch (error) {
    if (isForbidden(error) || isNotFound(error)) return noNodes
    throw error
  }
}

export async function listAll<T extends KubeObject>(
  kube: KubeClient,
  of: Resource<T>,
  namespace?: string,
): Promise<Persisted<T>[]> {
  const all: Persisted<T>[] = []
  for await (const page of pages(kube, of, namespace)) all.push(...page)
  return all
}

/** The labels of a namespace. For users who cannot read namespaces, only the label that every namespace has. */
export async function labelsOf(kube: KubeClient, name: string): Promise<{ readonly [key: string]: string }> {
  try {
    return (await kube.get(namespaces, { name })).metadata.labels ?? {}
  } catch (error) {
    if (isForbidden(error)) return { 'kubernetes.io/metadata.name': name }
    throw error
  }
}

/** The user, for conditions on it; undefined for API servers before 1.28, which do not support the request. */
export async function whoAmI(kube: KubeClient): Promise<unknown> {
  const review = { apiVersion: 'authentication.k8s.io/v1', kind: 'SelfSubjectReview' }
  try {
    const response = await kube.request('POST', '/apis/authentication.k8s.io/v1/selfsubjectreviews', review)
    return isRecord(response) && isRecord(response['status']) ? response['status']['userInfo'] : undefined
  } catch (error) {
    if (error instanceof ApiError) return undefined
    throw error
  }
}

const presetResources = { namespaced: 'virtualmachinepresets', cluster: 'clustervirtualmachinepresets' }

/** The presets from which the user may exempt an object, of those with these IDs. */
export async function exemptOf(
  kube: KubeClient,
  ids: readonly string[],
  resources: { readonly namespaced: string; readonly cluster: string },
): Promise<ReadonlySet<string>> {
  const mayExempt = async (id: string): Promise<boolean> => {
    const [first = '', second] = id.split('/')
    const preset =
      second === undefined
        ? { resource: resources.cluster, name: first }
        : { resource: resources.namespaced, namespace: first, name: second }
    const response = await kube.request('POST', '/apis/authorization.k8s.io/v1/selfsubjectaccessreviews', {
      apiVersion: 'authorization.k8s.io/v1',
      kind: 'SelfSubjectAccessReview',
      spec: { resourceAttributes: { group, verb: 'exempt', ...preset } },
    })
    return isRecord(response) && isRecord(response['status']) && response['status']['allowed'] === true
  }
  const allowed = await Promise.all(ids.map(mayExempt))
  return new Set(ids.filter((_, index) => allowed[index] === true))
}

export function once<T>(make: () => Promise<T>): () => Promise<T> {
  let made: Promise<T> | undefined
  return () => (made ??= make())
}

/** Converts an error of the API server to a usage error with a message; returns any other error unchanged. */
export function clusterFailure(error: unknown, { server }: Pick<Cluster, 'server'>, without = withoutCluster): unknown {
  if (error instanceof ApiUnreachable) {
    const why = errorText(error.cause ?? error)
    return new Usage(`the cluster at ${server} cannot be reached: ${why}${without}`, { cause: error })
  }
  if (!(error instanceof ApiError)) return error
  const { reason, message } = error.status
  if (isNotFound(error) && !message.includes('"')) {
    return new Usage(`virtset is not installed in the cluster at ${server}: ${message}${without}`, { cause: error })
  }
  // The form of kubectl.
  return new Usage(`from server (${reason}): ${message}`, { cause: error })
}
