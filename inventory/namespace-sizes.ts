import { maxNamespaceSize, namespaceTooLarge } from '../presets/check.ts'
import { quarantine, type CompiledPreset, type QuarantinedPreset } from '../presets/compile.ts'
import { refOf } from '../runtime/resource.ts'

/**
 * Admission compares a preset with its cache, so presets that are written at the same moment, to several replicas, can
 * exceed the limit of a namespace together, by no more than this.
 */
const mostCached = 2 * maxNamespaceSize

/** What the presets of each namespace count that are kept compiled. */
export interface NamespaceSizes {
  /**
   * Counts the preset and returns what was compiled; quarantines it if the presets of its namespace exceed the limit
   * with it.
   * @param stored the preset as JSON
   */
  limit<T extends { readonly preset: CompiledPreset }>(
    stored: { readonly kind?: string },
    compiled: T | { readonly quarantined: QuarantinedPreset },
  ): T | { readonly quarantined: QuarantinedPreset }
  remove(id: string): void
  /** The ids of presets of a namespace that were quarantined and together do not exceed the limit any more. */
  fitting(namespace: string | undefined): readonly string[]
}

export function createNamespaceSizes(): NamespaceSizes {
  const presets = new Map<string, { readonly namespace: string; readonly size: number }>()
  const totals = new Map<string, number>()
  /** The sizes of those that are quarantined, by namespace and id. */
  const excluded = new Map<string, Map<string, number>>()
  const totalOf = (namespace: string) => totals.get(namespace) ?? 0
  const include = (id: string): void => {
    const { namespace = '' } = refOf(id)
    const sizes = excluded.get(namespace)
    sizes?.delete(id)
    if (sizes?.size === 0) excluded.delete(namespace)
  }
  const remove = (id: string): void => {
    include(id)
    const preset = presets.get(id)
    if (preset === undefined) return
    presets.delete(id)
    const left = totalOf(preset.namespace) - preset.size
    if (left > 0) totals.set(preset.namespace, left)
    else totals.delete(preset.namespace)
  }
  return {
    limit(stored, compiled) {
      if (!('preset' in compiled)) return compiled
      const { id, namespace, size } = compiled.preset
      remove(id)
      if (namespace === undefined) return compiled
      const total = totalOf(namespace) + size
      if (total > mostCached) {
        excluded.set(namespace, (excluded.get(namespace) ?? new Map<string, number>()).set(id, size))
        return { quarantined: { ...quarantine(stored, [namespaceTooLarge(namespace, size, stored.kind)]), size } }
      }
      presets.set(id, { namespace, size })
      totals.set(namespace, total)
      return compiled
    },
    remove,
    fitting(namespace = '') {
      let left = mostCached - totalOf(namespace)
      const sizes = excluded.get(namespace) ?? new Map<string, number>()
      return [...sizes.keys()].toSorted().filter((id) => {
        const size = sizes.get(id) ?? 0
        if (size > left) return false
        left -= size
        return true
      })
    },
  }
}
