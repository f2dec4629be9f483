import type { Capabilities } from '../api/capabilities.ts'
import type { MachineSpec } from '../api/machine.ts'
import type { NodeCapabilities } from './nodes.ts'
import { checkRules } from './rules/rules.ts'

/**
 * The nodes that a VM may come to by its placement and that cannot run it as it is stored, by what they have published now. Empty where
 * none can: then it is better to say so at the start than to wait for a node forever.
 */
export function unfitNodes(spec: MachineSpec, capabilities: NodeCapabilities): readonly string[] {
  const provided = capabilities.providedFor(spec)
  const isUnfit = (one: Capabilities): boolean => {
    const context = { originOf: () => ({ by: 'user' as const }), isGranted: () => true, capabilities: one }
    return checkRules(spec, context).causes.some(({ lack }) => lack !== undefined)
  }
  // What all have in common is enough for nearly every VM.
  const unfit = isUnfit(provided.capabilities) ? provided.groups.filter((group) => isUnfit(group.capabilities)) : []
  const avoided = unfit.length < provided.groups.length ? unfit : []
  return [...provided.outliers, ...avoided].flatMap(({ nodes }) => nodes).toSorted()
}
