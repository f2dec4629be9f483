import { maxNamespaceSize, namespaceTooLarge } from '../presets/check.ts'
import { quarantine, type CompiledPreset, type QuarantinedPreset } from '../presets/compile.ts'

/**
 * Admission compares a preset with its cache, so presets that are written at the same moment, to several replicas, can
 * exceed the limit of a namespace together, by no more than this.
 */
const mostCached = 2 * maxNamespaceSize

/** What the presets of each namespace count that are kept compiled. */
export interface NamespaceSizes {
  /**
   * Counts the preset and returns what was compiled; quarantines it if the presets of its namespace exceed the limit with
   * it.
   * @param stored the preset as JSON
   */
  limit<T extends { readonly preset: CompiledPreset }>(
    stored: { readonly kind?: string },
    compiled: T | { readonly quarantined: QuarantinedPreset },
  ): T | { readonly quarantined: QuarantinedPreset }
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
    limit(stored, compiled) {
      if (!('preset' in compiled)) return compiled
      const { id, namespace, size } = compiled.preset
      remove(id)
      if (namespace === undefined) return compiled
      const total = (totals.get(namespace) ?? 0) + size
      if (total > mostCached)
        return { quarantined: quarantine(stored, [namespaceTooLarge(namespace, size, stored.kind)]) }
      presets.set(id, { namespace, size })
      totals.set(namespace, total)
      return compiled
    },
    remove,
  }
}
