import type { Origin } from '../api/cause.ts'
import { joinPath } from '../api/path.ts'
import { isRecord } from '../api/schema.ts'
import type { VirtualMachine } from '../api/virtual-machine.ts'
import type { Participant } from '../presets/inject.ts'
import type { Origins } from '../presets/origins.ts'

/**
 * The limit in characters of paths and names of presets. Without it, the provenance could exceed its own, and an
 * update would not read it. Presets of the cluster come first, so those of a namespace cannot displace them.
 */
const maxCharacters = 8192

interface EnforcedMetadata {
  readonly enforced: Origins
  /** Warnings about what exceeds the limit. */
  readonly warnings: readonly string[]
}

/**
 * The labels and annotations that presets of strength Enforce state, with the strongest preset that states each. Unlike
 * the spec, metadata can change after creation, so these must be known then. A value counts even if the user wrote the
 * same.
 */
export function enforcedMetadata({ metadata }: VirtualMachine, participants: readonly Participant[]): EnforcedMetadata {
  const enforced = new Map<string, Origin>()
  const unprotected = new Set<string>()
  const named = new Set<Origin>()
  let characters = 0
  for (const { preset } of participants.toSorted((left, right) => right.preset.rank - left.preset.rank)) {
    const { content, strength, origin } = preset
    if (strength !== 'Enforce' || !isRecord(content.metadata)) continue
    for (const field of ['labels', 'annotations'] as const) {
      const stated = content.metadata[field]
      for (const [key, value] of Object.entries(isRecord(stated) ? stated : {})) {
        const path = joinPath(`metadata.${field}`, key)
        if (metadata[field]?.[key] !== value || enforced.has(path)) continue
        characters += path.length + (named.has(origin) ? 0 : JSON.stringify(origin).length)
        named.add(origin)
        if (characters > maxCharacters) unprotected.add(path)
        else enforced.set(path, origin)
      }
    }
  }
  return { enforced, warnings: warningsFor([...unprotected]) }
}

function warningsFor([first, ...others]: readonly string[]): readonly string[] {
  if (first === undefined) return []
  const more = others.length === 0 ? '' : ` and ${others.length} more`
  return [
    `${first}${more}: can be changed later although presets of strength Enforce set them: the keys of all enforced labels and annotations, and the names of their presets, have more than ${maxCharacters} characters`,
  ]
}
