import { type Capabilities, capabilitiesSchema } from './capabilities.ts'
import { type SessionEndpoint, sessionEndpointSchema } from './session-endpoint.ts'
import type { ObjectMeta } from './object.ts'
import { boolean, bounded, closed, list, string } from './schema.ts'
import type { Schema, SchemasOf } from './schema.ts'

/**
 * What a node can do for VMs, written by its handler. It has the name and the labels of the node, and the node owns it.
 * Completion uses the profiles of the nodes that a VM may be scheduled to.
 */
export interface NodeProfile {
  readonly apiVersion: 'virtset.io/v1alpha1'
  readonly kind: 'NodeProfile'
  readonly metadata: ObjectMeta
  readonly spec: NodeProfileSpec
}

/** A profile as its handler publishes it: with its capabilities, or with the name of the NodeCapabilitySet with them. */
export type PublishedProfile = NodeProfile | SharingProfile

export interface SharingProfile extends Omit<NodeProfile, 'spec'> {
  readonly spec: SharingProfileSpec
}

export interface NodeProfileSpec extends LibvirtProfile, OfNode {}

interface SharingProfileSpec extends Omit<LibvirtProfile, 'capabilities'>, OfNode {
  readonly capabilitySetName: string
}

interface OfNode {
  /** Whether VMs of type kvm can run there. Only for people, who see it in a column. */
  readonly kvm: boolean
  /** The taints that administrators set, without those for the node's conditions. */
  readonly taints: readonly Taint[]
  /** Absent while no session can be opened to the node's guests. */
  readonly sessionEndpoint?: SessionEndpoint
}

/** What the launcher's image reports about a node. */
export interface LibvirtProfile {
  /** `11.3.0` */
  readonly libvirtVersion: string
  readonly capabilities: Capabilities
}

export interface Taint {
  readonly key: string
  readonly value?: string
  readonly effect: 'NoSchedule' | 'PreferNoSchedule' | 'NoExecute'
}

/** Whether it is not being deleted. Its node may no longer exist then, whatever finalizer still keeps the profile. */
export const isCurrent = ({ metadata }: Pick<PublishedProfile, 'metadata'>): boolean =>
  metadata.deletionTimestamp === undefined

/** The profile with its capabilities; undefined if it is being deleted, or the set that it names is unknown. */
export function resolveProfile<T extends PublishedProfile>(
  profile: T,
  capabilitiesOf: (setName: string) => Capabilities | undefined,
): (Omit<T, 'spec'> & { readonly spec: NodeProfileSpec }) | undefined {
  if (!isCurrent(profile)) return undefined
  const { spec } = profile
  if ('capabilities' in spec) return { ...profile, spec }
  const { capabilitySetName, ...own } = spec
  const capabilities = capabilitiesOf(capabilitySetName)
  return capabilities && { ...profile, spec: { ...own, capabilities } }
}

const described: Schema = bounded(
  closed(
    'The virtualization capabilities of the node, as its handler observes them.',
    {
      libvirtVersion: string('The version of libvirt in the pods of VMs.'),
      kvm: boolean('Whether VMs of type kvm can run on the node.'),
      taints: list(
        "The node's taints, except those for its conditions, which are temporary. VMs that do not tolerate them are not scheduled to the node.",
        closed(
          'A taint.',
          {
            key: string('Its key.'),
            value: string('Its value.'),
            effect: string('The effect on pods.', { enum: ['NoSchedule', 'PreferNoSchedule', 'NoExecute'] }),
          } satisfies SchemasOf<Taint>,
          ['key', 'effect'],
        ),
      ),
      sessionEndpoint: sessionEndpointSchema,
      capabilities: capabilitiesSchema,
      capabilitySetName: string(
        'The NodeCapabilitySet with the capabilities of the node, instead of `capabilities`. While it does not exist, the node counts like one without a profile.',
        { maxLength: 253 },
      ),
    } satisfies SchemasOf<NodeProfileSpec & SharingProfileSpec>,
    ['libvirtVersion', 'kvm', 'taints'],
  ),
)

export const nodeProfileSpecSchema: Schema = {
  ...described,
  oneOf: [{ required: ['capabilities'] }, { required: ['capabilitySetName'] }],
}
