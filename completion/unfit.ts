import type { Capabilities } from '../api/capabilities.ts'
import type { VirtualMachineSpec } from '../api/virtual-machine.ts'
import type { NodeCapabilities } from './nodes.ts'
import { checkRules } from './rules/rules.ts'

/**
 * The nodes that the placement of a VM allows but that cannot run it as stored, according to their current profiles.
 * Empty if none can: then an error at the start is better than waiting for a node forever.
 */
export function unfitNodes(spec: VirtualMachineSpec, capabilities: NodeCapabilities): readonly string[] {
  const provided = capabilities.providedFor(spec)
  const isUnfit = (one: Capabilities): boolean => {
    const context = { originOf: () => ({ by: 'user' as const }), isGranted: () => true, capabilities: one }
    return checkRules(spec, context).causes.some(({ missingCapability: lack }) => lack !== undefined)
  }
  // What all have in common is enough for nearly every VM.
  const unfit = isUnfit(provided.capabilities) ? provided.groups.filter((group) => isUnfit(group.capabilities)) : []
  const avoided = unfit.length < provided.groups.length ? unfit : []
  return [...provided.outliers, ...avoided].flatMap(({ nodes }) => nodes).toSorted()
}
