import { isCpuLabel } from '../api/cpu-label.ts'

type Labels = { readonly [key: string]: string }

/**
 * What to change in the labels of a node so that those for its CPU are the wanted ones, as a merge patch; undefined if
 * they are. All other labels are of others.
 */
export function cpuLabelPatch(present: Labels, wanted: Labels): { readonly [key: string]: string | null } | undefined {
  const stale = Object.keys(present).filter((key) => isCpuLabel(key) && wanted[key] === undefined)
  const changed = Object.entries(wanted).filter(([key, value]) => present[key] !== value)
  if (stale.length === 0 && changed.length === 0) return undefined
  return { ...Object.fromEntries(stale.map((key) => [key, null])), ...Object.fromEntries(changed) }
}

/** The labels that are not about the CPU of the node. */
export const withoutCpuLabels = (labels: Labels): Labels =>
  Object.fromEntries(Object.entries(labels).filter(([key]) => !isCpuLabel(key)))
