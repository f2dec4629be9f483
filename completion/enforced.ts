import type { Origin } from '../api/cause.ts'
import { joinPath } from '../api/path.ts'
import { isRecord } from '../api/schema.ts'
import type { VirtualMachine } from '../api/virtual-machine.ts'
import type { CompiledPreset } from '../presets/compile.ts'
import type { Participant } from '../presets/inject.ts'
import type { Origins } from '../presets/origins.ts'
import { canRemove, type RemoveStep } from '../presets/remove-path.ts'
import { disksOf, isChangeable, isDisk, mediumPath, type Disk } from './media.ts'

/**
 * The limit in characters of paths and names of presets. Without it, the provenance could exceed its own, and an
 * update would not read it. Presets of the cluster come first, so those of a namespace cannot displace them.
 */
const maxCharacters = 8192

interface Enforced {
  readonly enforced: Origins
  /** Warnings about what exceeds the limit. */
  readonly warnings: readonly string[]
}

/**
 * The labels, annotations and media that presets of strength Enforce state or remove, with the strongest preset that
 * does for each. Unlike the rest of a VM, these can change after creation, so they must be known then. A value counts
 * even if the user wrote the same.
 */
export function enforcedValues({ metadata, spec }: VirtualMachine, participants: readonly Participant[]): Enforced {
  const enforced = new Map<string, Origin>()
  const unprotected = new Set<string>()
  const named = new Set<Origin>()
  let characters = 0
  const add = (path: string, origin: Origin): void => {
    if (enforced.has(path)) return
    characters += path.length + (named.has(origin) ? 0 : JSON.stringify(origin).length)
    named.add(origin)
    if (characters > maxCharacters) unprotected.add(path)
    else enforced.set(path, origin)
  }
  for (const { preset } of participants.toSorted((left, right) => right.preset.rank - left.preset.rank)) {
    const { content, strength, origin } = preset
    if (strength !== 'Enforce') continue
    for (const field of ['labels', 'annotations'] as const) {
      const stated = isRecord(content.metadata) ? content.metadata[field] : undefined
      for (const [key, value] of Object.entries(isRecord(stated) ? stated : {})) {
        if (metadata[field]?.[key] === value) add(joinPath(`metadata.${field}`, key), origin)
      }
    }
    for (const path of enforcedMedia(disksOf(spec), preset)) add(path, origin)
  }
  return { enforced, warnings: warningsFor([...unprotected]) }
}

/** The paths of the media in a VM's drives that a preset states, or removes. */
function enforcedMedia(disks: readonly unknown[], { content, removes }: CompiledPreset): string[] {
  const stated = new Map(
    disksOf(content.spec).flatMap((disk) => (isDisk(disk) ? [[disk.target?.dev, disk.source?.volume] as const] : [])),
  )
  const takingMedia = removes.filter(({ steps }) => steps.some((step) => step.kind === 'key' && step.key === 'source'))
  if (stated.size + takingMedia.length === 0) return []
  return disks.flatMap((disk, index) => {
    if (!isDisk(disk) || !isChangeable(disk)) return []
    const path = mediumPath(index)
    const medium = disk.source?.volume
    const isEnforced =
      medium === undefined
        ? takingMedia.some((one) => canRemove(one, path) && one.steps.every((step) => fits(step, disk)))
        : stated.get(disk.target?.dev) === medium
    return isEnforced ? [path] : []
  })
}

const fits = (step: RemoveStep, disk: Disk): boolean => {
  if (step.kind !== 'match') return true
  let value: unknown = disk
  for (const key of step.path) value = isRecord(value) ? value[key] : undefined
  return String(value) === step.value
}

function warningsFor([first, ...others]: readonly string[]): readonly string[] {
  if (first === undefined) return []
  const more = others.length === 0 ? '' : ` and ${others.length} more`
  return [
    `${first}${more}: can be changed later although presets of strength Enforce set them: the paths of all enforced labels, annotations and media, and the names of their presets, have more than ${maxCharacters} characters`,
  ]
}
