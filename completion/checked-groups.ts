import type { NodeGroup } from './outliers.ts'

/** For the checks of one VM on all kinds of nodes. */
const maxSteps = 50_000
/** Few rules read capabilities. Measured, they take at most a quarter of the time of a step for each value. */
const valuesPerStep = 4

/**
 * The kinds of nodes on which a VM is checked, those with the most nodes first, and the others. A VM of usual size is
 * checked on more than a thousand kinds. Fewer nodes are checked rather than the VM refused: it is not the fault of its
 * user that the nodes differ.
 * @param size that of the spec, in values
 */
export function checkedGroups(
  groups: readonly NodeGroup[],
  size: number,
): { readonly checked: readonly NodeGroup[]; readonly unchecked: readonly NodeGroup[] } {
  const count = mostKinds(size)
  if (groups.length <= count) return { checked: groups, unchecked: [] }
  const bySize = groups.toSorted((one, other) => other.nodes.length - one.nodes.length)
  return { checked: bySize.slice(0, count), unchecked: bySize.slice(count) }
}

/** On how many kinds of nodes a spec or a part of this size is checked. */
export const mostKinds = (size: number): number => Math.max(1, Math.floor(maxSteps / Math.ceil(size / valuesPerStep)))
