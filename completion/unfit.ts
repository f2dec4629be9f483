import type { Cause } from '../api/cause.ts'
import { sizeOf } from '../api/steps.ts'
import type { VirtualMachineSpec } from '../api/virtual-machine.ts'
import { checkedGroups } from './checked-groups.ts'
import type { NodeCapabilities, Provided } from './nodes.ts'
import type { NodeGroup } from './outliers.ts'
import { checkRules } from './rules/rules.ts'

/**
 * The nodes on which the VM's placement allows it to run but which cannot run it as stored, according to their current
 * profiles. Empty if no node can: an error at the start is better than waiting for a node forever. A large VM is not
 * checked for all kinds of nodes (`checkedGroups`), and then avoids the others.
 */
export function unfitNodes(spec: VirtualMachineSpec, capabilities: NodeCapabilities): readonly string[] {
  const provided = capabilities.providedFor(spec)
  return [...provided.outliers, ...avoided(spec, provided)].flatMap(({ nodes }) => nodes).toSorted()
}

function avoided(spec: VirtualMachineSpec, { groups, capabilities }: Provided): readonly NodeGroup[] {
  // If all nodes are equal, none is avoided.
  if (groups.length < 2) return []
  const context = { originOf: () => ({ by: 'user' as const }), isGranted: () => true, capabilities }
  const { causes, causesOn } = checkRules(spec, context)
  // Nearly every VM is satisfied by the common capabilities. They cannot show that a node has too much.
  const isUnsure = (spec.domain.cpu?.features ?? []).some(({ policy }) => policy === 'forbid')
  if (!isUnsure && !isMissing(causes)) return []
  const { checked, unchecked } = checkedGroups(groups, sizeOf(spec))
  const unfit = [...checked.filter((group) => isMissing(causesOn(group.capabilities))), ...unchecked]
  return unfit.length < groups.length ? unfit : []
}

/** The labels of a node show its CPU, and the pod selects nodes by them. */
const isMissing = (causes: readonly Cause[]): boolean =>
  causes.some(({ missingCapability, hardware }) => missingCapability !== undefined && hardware !== 'labeled')
