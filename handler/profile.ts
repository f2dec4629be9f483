import { isDeepStrictEqual } from 'node:util'
import { readCapabilities, type Capabilities } from '../api/capabilities.ts'
import { cpuLabelsOf } from '../api/cpu-label.ts'
import type { SessionEndpoint } from '../api/session-endpoint.ts'
import { capabilitySetName } from '../api/node-capability-set.ts'
import type { LibvirtProfile, NodeProfile, PublishedProfile, Taint } from '../api/node-profile.ts'
import { apiVersion } from '../api/object.ts'
import { isRecord } from '../api/schema.ts'
import { isForbidden, unlessNotFound } from '../runtime/api-error.ts'
import type { Clock } from '../runtime/clock.ts'
import type { KubeClient } from '../runtime/kube.ts'
import type { Logger } from '../runtime/log.ts'
import { startReflector, type Reflector } from '../runtime/reflector.ts'
import { nodeCapabilitySets, nodeProfiles, resource, type KubeObject, type Persisted } from '../runtime/resource.ts'
import { pick, slimMetadata } from '../runtime/slim.ts'
import { startWorkQueue } from '../runtime/work-queue.ts'
import { cpuLabelPatch, withoutCpuLabels } from './node-labels.ts'

/** The part of Kubernetes' Node that a profile copies. */
export interface Node extends KubeObject {
  readonly spec?: { readonly taints?: readonly Taint[] }
}

const nodes = resource<Node>({ group: '', version: 'v1', plural: 'nodes', kind: 'Node', namespaced: false })

type Labels = { readonly [key: string]: string }

export interface ProfilePublisher {
  readonly node: Reflector<Node>
  stop(): Promise<void>
}

/** The profile pod writes the file when it has queried libvirt, and again after a restart. */
const readAgainMs = 10_000
const profileFile = 'profile.json'
/** The API server stores no object of this size. A profile takes 60 to 90 KB. */
const maxBytes = 1024 * 1024
/**
 * A profile that was deleted or changed is published again after this time. So is one whose capabilities have become a
 * set, or whose set is gone.
 */
const repairMs = 600_000

/**
 * Publishes the capabilities of a node, as the pod with libvirt has written them to a file, with the node's labels and
 * taints, as the NodeProfile with the node's name, and labels the node with what its CPU can do. It does so whenever
 * they change.
 */
export function publishProfile(options: {
  readonly kube: KubeClient
  readonly nodeName: string
  /** Reads a file of the profile pod; undefined while there is none. */
  readonly read: (name: string, maxBytes: number) => Promise<Buffer | undefined>
  /** Published with the profile. */
  readonly sessionEndpoint?: SessionEndpoint
  readonly log: Logger
  readonly clock: Clock
}): ProfilePublisher {
  const { kube, nodeName, read, sessionEndpoint, log, clock } = options
  const node = startReflector({
    kube,
    resource: nodes,
    log,
    clock,
    name: nodeName,
    slim: slimNode,
  })
  const queue = startWorkQueue({ reconcile, concurrency: 1, log, clock })
  let published: { readonly text: string; readonly setName: string | undefined; readonly atMs: number } | undefined
  let endpointCheckedAtMs: number | undefined
  node.onChange(() => queue.add(nodeName))

  async function reconcile(): Promise<void> {
    queue.addAfter(nodeName, readAgainMs)
    const found = parseProfile(await read(profileFile, maxBytes))
    const own = node.store.get(nodeName)
    if (own === undefined) return
    if (found === undefined) return publishEndpoint(own)
    await publish(nodeProfile(own, found, sessionEndpoint))
    await labelNode(own, cpuLabelsOf(found.capabilities.accelerators.kvm))
  }

  async function publish(profile: NodeProfile): Promise<void> {
    const text = JSON.stringify(profile)
    if (published?.text === text && clock.monotonic() - published.atMs < repairMs) return
    const setName = await findSet(profile.spec.capabilities)
    await apply(setName === undefined ? profile : sharingProfile(profile, setName))
    if (published?.text !== text || published.setName !== setName) {
      const { version: qemu } = profile.spec.capabilities
      log.info({ nodeName, qemu, capabilitySet: setName }, 'published the profile of the node')
    }
    published = { text, setName, atMs: clock.monotonic() }
  }

  /**
   * Until libvirt has been queried, the profile would have the endpoint of the handler before. Its other fields are
   * applied again as they are: Kubernetes removes those that a field manager no longer applies. Any other patch would
   * make the endpoint another manager's, too, and it would stay when a handler without sessions applies its profile.
   */
  async function publishEndpoint({ metadata: { uid } }: Persisted<Node>): Promise<void> {
    if (endpointCheckedAtMs !== undefined && clock.monotonic() - endpointCheckedAtMs < repairMs) return
    const stored = await unlessNotFound(kube.get(nodeProfiles, { name: nodeName })).catch(unlessForbidden)
    const isOfNode = stored?.metadata.ownerReferences?.some((owner) => owner.uid === uid) === true
    if (isOfNode && !isDeepStrictEqual(stored.spec.sessionEndpoint, sessionEndpoint)) {
      // With its uid and version: no other profile is changed, and none is created.
      await apply({ ...stored, spec: { ...stored.spec, sessionEndpoint } })
      log.info(
        { nodeName, address: sessionEndpoint?.address },
        'changed the session endpoint in the profile of the node',
      )
    }
    endpointCheckedAtMs = clock.monotonic()
  }

  async function apply(body: object): Promise<void> {
    const patch = { type: 'apply', body, fieldManager: 'virtset-handler', force: true } as const
    await kube.patch(nodeProfiles, { name: nodeName }, patch)
  }

  /** The set with exactly these capabilities, if the controller has created one. */
  async function findSet(capabilities: Capabilities): Promise<string | undefined> {
    const name = capabilitySetName(capabilities)
    const set = await unlessNotFound(kube.get(nodeCapabilitySets, { name })).catch(unlessForbidden)
    if (set === undefined || set.spec.retired === true) return undefined
    return isDeepStrictEqual(set.spec.capabilities, capabilities) ? name : undefined
  }

  async function labelNode({ metadata }: Persisted<Node>, wanted: Labels): Promise<void> {
    const labels = cpuLabelPatch(metadata.labels ?? {}, wanted)
    if (labels === undefined) return
    // The uid: not the labels of a new node of this name.
    const body = { metadata: { uid: metadata.uid, labels } }
    await kube.patch(nodes, { name: nodeName }, { type: 'merge', body })
    log.info({ nodeName, changed: Object.keys(labels).length }, 'labeled the node with what its CPU can do')
  }

  return {
    node,
    async stop() {
      await node.stop()
      await queue.drain()
    },
  }
}

/** During an upgrade, the permission may come after the handler; what it cannot read counts as absent until it looks again. */
function unlessForbidden(error: unknown): undefined {
  if (!isForbidden(error)) throw error
}

/** The profile of a node. The Node owns it. */
export function nodeProfile(
  { metadata, spec }: Persisted<Node>,
  { libvirtVersion, capabilities }: LibvirtProfile,
  sessionEndpoint?: SessionEndpoint,
): NodeProfile {
  const { name, uid, labels = {} } = metadata
  return {
    apiVersion,
    kind: 'NodeProfile',
    // Those for its CPU follow from its capabilities, and would make each profile larger by a tenth.
    metadata: {
      name,
      labels: withoutCpuLabels(labels),
      ownerReferences: [{ apiVersion: 'v1', kind: 'Node', name, uid }],
    },
    spec: {
      libvirtVersion,
      kvm: capabilities.accelerators.kvm !== undefined,
      taints: (spec?.taints ?? [])
        .filter(({ key }) => !ofCondition.test(key))
        .map(({ key, value, effect }) => ({ key, ...(value === undefined ? {} : { value }), effect })),
      ...(sessionEndpoint === undefined ? {} : { sessionEndpoint }),
      capabilities,
    },
  }
}

/** The profile with the name of a set instead of its capabilities. */
function sharingProfile({ spec, ...profile }: NodeProfile, capabilitySetName: string): PublishedProfile {
  const { capabilities: _inSet, ...own } = spec
  return { ...profile, spec: { ...own, capabilitySetName } }
}

/** Kubernetes adds and removes these by itself. */
const ofCondition = /^node\.(cloudprovider\.)?kubernetes\.io\//

/** Drops the megabyte of images that a Node can have. */
function slimNode(node: Persisted<Node>): Persisted<Node> {
  return {
    ...pick(node, 'apiVersion', 'kind'),
    metadata: slimMetadata(node.metadata, 'labels'),
    spec: pick(node.spec ?? {}, 'taints'),
  }
}

/** Undefined until libvirt has been queried. */
function parseProfile(bytes: Buffer | undefined): LibvirtProfile | undefined {
  if (bytes === undefined) return undefined
  const value: unknown = JSON.parse(bytes.toString('utf8'))
  if (!isRecord(value) || typeof value['libvirtVersion'] !== 'string')
    throw new Error(`${profileFile} does not contain a profile`)
  return { libvirtVersion: value['libvirtVersion'], capabilities: readCapabilities(value['capabilities']) }
}
