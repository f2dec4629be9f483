import { isCapabilities, type Capabilities } from '../api/capabilities.ts'
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

/**
 * Whether capabilities are valid. The limits of their schema bound the work of combining them. The API server validates
 * a profile only when it is written, so one that was stored before a limit was added may violate it; and it does not
 * check that names are sorted and unique.
 */
export function createUsable(): (capabilities: Capabilities) => boolean {
  const known = new WeakMap<Capabilities, boolean>()
  return (capabilities) => {
    const isUsable = known.get(capabilities) ?? isCapabilities(capabilities)
    known.set(capabilities, isUsable)
    return isUsable
  }
}

/** The profiles that count, with their capabilities. Equal ones are one object. */
export function resolveProfiles(
  profiles: readonly PublishedProfile[],
  sets: readonly NodeCapabilitySet[],
): NodeProfile[] {
  const share = shareCapabilities()
  const isUsable = createUsable()
  const known = new Map(sets.map((set) => [set.metadata.name, set]))
  return profiles.flatMap((published) => {
    const profile = resolveProfile(published, (name) => capabilitiesOf(known.get(name)))
    if (profile === undefined) return []
    const capabilities = share(profile.spec.capabilities)
    return isUsable(capabilities) ? [{ ...profile, spec: { ...profile.spec, capabilities } }] : []
  })
}
