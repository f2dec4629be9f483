import type { Capabilities } from '../api/capabilities.ts'
import { capabilitySetName, type NodeCapabilitySet } from '../api/node-capability-set.ts'
import { resolveProfile, type NodeProfile, type PublishedProfile } from '../api/node-profile.ts'
import { shareCapabilities } from '../completion/nodes.ts'

/**
 * The capabilities of a set; undefined if there is no set or its name is not the one of its content. Only the controller
 * writes sets, with the right name, but an administrator can create others.
 */
export function capabilitiesOf(set: NodeCapabilitySet | undefined): Capabilities | undefined {
  if (set === undefined) return undefined
  const { capabilities } = set.spec
  return capabilitySetName(capabilities) === set.metadata.name ? capabilities : undefined
}

/** The profiles with their capabilities, without those that name a set that does not exist. Equal ones are one object. */
export function resolveProfiles(
  profiles: readonly PublishedProfile[],
  sets: readonly NodeCapabilitySet[],
): NodeProfile[] {
  const share = shareCapabilities()
  const known = new Map(sets.map((set) => [set.metadata.name, set]))
  return profiles.flatMap((published) => {
    const profile = resolveProfile(published, (name) => capabilitiesOf(known.get(name)))
    return profile === undefined
      ? []
      : [{ ...profile, spec: { ...profile.spec, capabilities: share(profile.spec.capabilities) } }]
  })
}
