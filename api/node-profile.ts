import { type Capabilities, capabilitiesSchema } from './capabilities.ts'
import type { ObjectMeta } from './object.ts'
import { boolean, bounded, closed, list, string } from './schema.ts'
import type { Schema, SchemasOf } from './schema.ts'

/**
 * What a node can do for VMs, written by its handler: called like the node, owned by it, with its labels. Completion
 * decides by the profiles of the nodes that a VM may come to.
 */
export interface NodeProfile {
  readonly apiVersion: 'virtset.io/v1alpha1'
  readonly kind: 'NodeProfile'
  readonly metadata: ObjectMeta
  readonly spec: NodeProfileSpec
}

export interface NodeProfileSpec extends LibvirtProfile {
  /** Whether VMs of type kvm can run there; for people, who read it in a column. */
  readonly kvm: boolean
  /** Those that an administrator gave the node, not those of its condition. */
  readonly taints: readonly Taint[]
}

/** What the launcher's image on a node has found out. */
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

export const nodeProfileSpecSchema: Schema = bounded(
  closed(
    'What its node can do, as the handler there has found out.',
    {
      libvirtVersion: string('The version of libvirt in the pods of VMs.'),
      kvm: boolean('Whether VMs of type kvm can run there.'),
      taints: list(
        "The node's taints but for those of its condition, which come and go: VMs that do not tolerate them do not come there.",
        closed(
          'A taint.',
          {
            key: string('Its key.'),
            value: string('Its value.'),
            effect: string('What it does to pods.', { enum: ['NoSchedule', 'PreferNoSchedule', 'NoExecute'] }),
          } satisfies SchemasOf<Taint>,
          ['key', 'effect'],
        ),
      ),
      capabilities: capabilitiesSchema,
    } satisfies SchemasOf<NodeProfileSpec>,
    ['libvirtVersion', 'kvm', 'taints', 'capabilities'],
  ),
)
