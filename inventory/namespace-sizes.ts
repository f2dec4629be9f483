import { maxNamespaceSize } from '../presets/check.ts'

/**
 * Admission compares a preset with its cache, so presets that are written at the same moment, to several replicas, can
 * exceed the limit of a namespace together, by no more than this.
 */
const mostCached = 2 * maxNamespaceSize

/** What the presets of each namespace count that are kept compiled. */
export interface NamespaceSizes {
  /** Counts a preset, unless the presets of its namespace exceed the limit with it. Returns whether it did. */
  add(id: string, namespace: string, size: number): boolean
  remove(id: string): void
}

export function createNamespaceSizes(): NamespaceSizes {
  const presets = new Map<string, { readonly namespace: string; readonly size: number }>()
  const totals = new Map<string, number>()
  const remove = (id: string): void => {
    const preset = presets.get(id)
    if (preset === undefined) return
    presets.delete(id)
    const left = (totals.get(preset.namespace) ?? 0) - preset.size
    if (left > 0) totals.set(preset.namespace, left)
    else totals.delete(preset.namespace)
  }
  return {
    add(id, namespace, size) {
      remove(id)
      const total = (totals.get(namespace) ?? 0) + size
      if (total > mostCached) return false
      presets.set(id, { namespace, size })
      totals.set(namespace, total)
      return true
    },
    remove,
  }
}
