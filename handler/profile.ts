import { readFile } from 'node:fs/promises'
import { readCapabilities } from '../api/capabilities.ts'
import type { LibvirtProfile, NodeProfile, Taint } from '../api/node-profile.ts'
import { apiVersion } from '../api/object.ts'
import { isRecord } from '../api/schema.ts'
import type { Clock } from '../runtime/clock.ts'
import type { KubeClient } from '../runtime/kube.ts'
import type { Logger } from '../runtime/log.ts'
import { startReflector, type Reflector } from '../runtime/reflector.ts'
import { nodeProfiles, resource, type KubeObject, type Persisted } from '../runtime/resource.ts'
import { startWorkQueue } from '../runtime/work-queue.ts'

/** The part of Kubernetes' Node that a profile copies. */
export interface Node extends KubeObject {
  readonly spec?: { readonly taints?: readonly Taint[] }
}

const nodes = resource<Node>({ group: '', version: 'v1', plural: 'nodes', kind: 'Node', namespaced: false })

export interface ProfilePublisher {
  readonly node: Reflector<Node>
  stop(): Promise<void>
}

/** Another container of the pod writes the file when it has queried libvirt, and again after a restart. */
const readAgainMs = 10_000
/** A profile that was deleted or changed is published again after this time. */
const repairMs = 600_000

/**
 * Publishes the capabilities of a node, as the container with libvirt has written them to `file`, with the node's
 * labels and taints, as the NodeProfile with the node's name. It does so whenever they change.
 */
export function publishProfile(options: {
  readonly kube: KubeClient
  readonly nodeName: string
  readonly file: string
  readonly log: Logger
  readonly clock: Clock
}): ProfilePublisher {
  const { kube, nodeName, file, log, clock } = options
  const node = startReflector({
    kube,
    resource: nodes,
    log,
    clock,
    fieldSelector: `metadata.name=${nodeName}`,
    transform: withoutStatus,
  })
  const queue = startWorkQueue({ reconcile, concurrency: 1, log, clock })
  let published: { readonly text: string; readonly atMs: number } | undefined
  node.onChange(() => queue.add(nodeName))

  async function reconcile(): Promise<void> {
    queue.addAfter(nodeName, readAgainMs)
    const found = await readProfile(file)
    const own = node.store.get(nodeName)
    if (found === undefined || own === undefined) return
    const profile = nodeProfile(own, found)
    const text = JSON.stringify(profile)
    if (published?.text === text && clock.monotonic() - published.atMs < repairMs) return
    await kube.patch(
      nodeProfiles,
      { name: nodeName },
      { type: 'apply', body: profile, fieldManager: 'virtset-handler', force: true },
    )
    if (published?.text !== text)
      log.info({ nodeName, qemu: found.capabilities.version }, 'published the profile of the node')
    published = { text, atMs: clock.monotonic() }
  }

  return {
    node,
    async stop() {
      await node.stop()
      await queue.drain()
    },
  }
}

/** The profile of a node. The Node owns it. */
export function nodeProfile(
  { metadata, spec }: Persisted<Node>,
  { libvirtVersion, capabilities }: LibvirtProfile,
): NodeProfile {
  const { name, uid, labels = {} } = metadata
  return {
    apiVersion,
    kind: 'NodeProfile',
    metadata: { name, labels, ownerReferences: [{ apiVersion: 'v1', kind: 'Node', name, uid }] },
    spec: {
      libvirtVersion,
      kvm: capabilities.accelerators.kvm !== undefined,
      taints: (spec?.taints ?? [])
        .filter(({ key }) => !ofCondition.test(key))
        .map(({ key, value, effect }) => ({ key, ...(value === undefined ? {} : { value }), effect })),
      capabilities,
    },
  }
}

/** Kubernetes adds and removes these by itself. */
const ofCondition = /^node\.(cloudprovider\.)?kubernetes\.io\//

/** Drops the megabyte of images that a Node can have. */
function withoutStatus({ apiVersion: of, kind, metadata, spec }: Persisted<Node>): Persisted<Node> {
  const { name, uid, resourceVersion, labels = {} } = metadata
  const { taints = [] } = spec ?? {}
  return {
    ...(of && { apiVersion: of }),
    ...(kind && { kind }),
    metadata: { name, uid, resourceVersion, labels },
    spec: { taints },
  }
}

/** Undefined until libvirt has been queried. */
async function readProfile(file: string): Promise<LibvirtProfile | undefined> {
  try {
    const value: unknown = JSON.parse(await readFile(file, 'utf8'))
    if (!isRecord(value) || typeof value['libvirtVersion'] !== 'string')
      throw new Error(`${file} does not contain a profile`)
    return { libvirtVersion: value['libvirtVersion'], capabilities: readCapabilities(value['capabilities']) }
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'ENOENT') return undefined
    throw error
  }
}
