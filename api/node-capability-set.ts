import { createHash } from 'node:crypto'
import { capabilitiesSchema, type Capabilities } from './capabilities.ts'
import type { ObjectMeta } from './object.ts'
import { boolean, closed, type Schema, type SchemasOf } from './schema.ts'
import { sortedJson } from './sorted-json.ts'

/**
 * Capabilities that several nodes have. Their profiles name the set instead of repeating it. It has the name that its
 * content gives it (`capabilitySetName`), and only the controller writes it.
 */
export interface NodeCapabilitySet {
  readonly apiVersion: 'virtset.io/v1alpha1'
  readonly kind: 'NodeCapabilitySet'
  readonly metadata: ObjectMeta
  readonly spec: NodeCapabilitySetSpec
}

export interface NodeCapabilitySetSpec {
  readonly capabilities: Capabilities
  /** Handlers must not name the set: profiles are not to share capabilities any more. */
  readonly retired?: boolean
}

export const nodeCapabilitySetSpecSchema: Schema = closed(
  'Capabilities that several nodes have.',
  {
    capabilities: {
      ...capabilitiesSchema,
      'x-kubernetes-validations': [{ rule: 'self == oldSelf', message: 'cannot be changed: the set is named by it' }],
    },
    retired: boolean(
      'Whether nodes publish their own capabilities again. The controller sets it when SHARE_CAPABILITIES is off.',
    ),
  } satisfies SchemasOf<NodeCapabilitySetSpec>,
  ['capabilities'],
)

const names = new WeakMap<Capabilities, string>()

/**
 * The name of the set with these capabilities. Processes of all versions must compute the same name, or profiles that
 * name a set would not count.
 */
export function capabilitySetName(capabilities: Capabilities): string {
  const name = names.get(capabilities) ?? createHash('sha256').update(sortedJson(capabilities)).digest('hex')
  names.set(capabilities, name)
  return name
}
