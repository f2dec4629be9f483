import { isCpuLabel } from '../api/cpu-label.ts'

type Labels = { readonly [key: string]: string }

/**
 * A merge patch that sets the labels for the CPU of a node to `wanted` and does not change its other labels; undefined
 * if there is nothing to change.
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
