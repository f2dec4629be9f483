import type { Capabilities } from '../api/capabilities.ts'
import type { VirtualMachineSpec } from '../api/virtual-machine.ts'
import type { NodeCapabilities } from './nodes.ts'
import { checkRules } from './rules/rules.ts'

/**
 * The nodes on which the VM's placement allows it to run but which cannot run it as stored, according to their current
 * profiles. Empty if no node can: an error at the start is better than waiting for a node forever.
 */
export function unfitNodes(spec: VirtualMachineSpec, capabilities: NodeCapabilities): readonly string[] {
  const provided = capabilities.providedFor(spec)
  const isUnfit = (one: Capabilities): boolean => {
    const context = { originOf: () => ({ by: 'user' as const }), isGranted: () => true, capabilities: one }
    // The labels of a node show its CPU, and the pod selects nodes by them.
    return checkRules(spec, context).causes.some(
      ({ missingCapability, hardware }) => missingCapability !== undefined && hardware !== 'labeled',
    )
  }
  // Nearly every VM is satisfied by the common capabilities. They cannot show that a node has too much.
  const isUnsure = (spec.domain.cpu?.features ?? []).some(({ policy }) => policy === 'forbid')
  // If all nodes are equal, none is avoided.
  const isMixed = provided.groups.length > 1 && (isUnsure || isUnfit(provided.capabilities))
  const unfit = isMixed ? provided.groups.filter((group) => isUnfit(group.capabilities)) : []
  const avoided = unfit.length < provided.groups.length ? unfit : []
  return [...provided.outliers, ...avoided].flatMap(({ nodes }) => nodes).toSorted()
}
