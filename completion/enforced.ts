import type { Origin } from '../api/cause.ts'
import { joinPath, parentPath } from '../api/path.ts'
import { isRecord } from '../api/schema.ts'
import { sizeOf, type Steps } from '../api/steps.ts'
import type { VirtualMachine } from '../api/virtual-machine.ts'
import type { CompiledPreset } from '../presets/compile.ts'
import type { Participant } from '../presets/inject.ts'
import { virtualMachineKind } from '../presets/kind.ts'
import type { Origins } from '../presets/origins.ts'
import type { RemovePath } from '../presets/remove-path.ts'
import { settle } from '../presets/settle.ts'
import { disksOf, disksPath, isChangeable, isDisk, mediumPath } from './media.ts'

/**
 * The limit in characters of the paths of labels and annotations and of the names of their presets. Without it, the
 * provenance could exceed its own, and an update would not read it. Presets of the cluster come first, so those of a
 * namespace cannot displace them.
 */
const maxCharacters = 8192

/** If presets enforce more media, all of the VM's stay: a user who adds drives must not displace what is enforced. */
const maxMedia = 32

interface Enforced {
  readonly enforced: Origins
  /** Warnings about what exceeds the limit. */
  readonly warnings: readonly string[]
}

/**
 * The labels, annotations and media that presets of strength Enforce set, and the media that they remove, with the
 * strongest preset that does for each. Unlike the rest of a VM, these can change after creation, so they must be known
 * then. A value counts even if the user wrote the same.
 */
export function enforcedValues(
  vm: VirtualMachine,
  participants: readonly Participant[],
  removed: Origins,
  steps: Steps,
): Enforced {
  const presets = participants
    .map(({ preset }) => preset)
    .filter(({ strength }) => strength === 'Enforce')
    .toSorted((left, right) => right.rank - left.rank)
  const { enforced, warnings } = enforcedMetadata(vm, presets)
  const media = enforcedMedia(vm, presets, removed, steps)
  const [[, origin] = []] = media
  const kept = media.length > maxMedia && origin !== undefined ? [[disksPath, origin] as const] : media
  return { enforced: new Map([...enforced, ...kept]), warnings }
}

function enforcedMetadata({ metadata }: VirtualMachine, presets: readonly CompiledPreset[]): Enforced {
  const enforced = new Map<string, Origin>()
  const unprotected = new Set<string>()
  const named = new Set<Origin>()
  let characters = 0
  for (const { content, origin } of presets) {
    for (const field of ['labels', 'annotations'] as const) {
      const stated = isRecord(content.metadata) ? content.metadata[field] : undefined
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

/** A medium that no volume can be: its name is invalid. */
const probe = '?'

/**
 * The media that presets set or remove whatever they are: those that they change once more if each drive has another
 * one. And the drives that are empty because a preset removed what the user had there. And all drives if a preset
 * removes the media, or the drives, with a volume that the VM has: it could be inserted later.
 */
function enforcedMedia(
  { metadata, spec }: VirtualMachine,
  presets: readonly CompiledPreset[],
  removed: Origins,
  steps: Steps,
): (readonly [string, Origin])[] {
  const disks = disksOf(spec)
  const drives = disks.flatMap((disk, index) => (isDisk(disk) && isChangeable(disk) ? [[index, disk] as const] : []))
  const about = presets.flatMap(ofMedia)
  // A path can have a name as it is, or in JSON.
  const names = new Set(spec.volumes?.flatMap(({ name }) => [name, JSON.stringify(name)]))
  const byName = presets.find(removesOneOf(names))?.origin
  if (drives.length === 0 || (about.length === 0 && byName === undefined)) return []
  const probing = new Map(
    drives.map(([index, disk]) => [index, { ...disk, source: { ...disk.source, volume: probe } }]),
  )
  const probed = disks.map((disk, index) => probing.get(index) ?? disk)
  const object = { metadata, spec: { domain: { devices: { disks: probed } }, volumes: spec.volumes } }
  steps.spend(sizeOf(object) + about.reduce((sum, { content }) => sum + sizeOf(content), 0))
  const settled = settle(object, about, virtualMachineKind(), steps)
  const after = disksOf((settled.object as unknown as typeof object).spec)
  const originAt = (path: string): Origin | undefined =>
    settled.origins.get(path) ?? removerOf(settled.removed, path) ?? about[0]?.origin
  return drives.flatMap(([index, disk]) => {
    const path = mediumPath(index)
    const other = after[index]
    const isForced = !isDisk(other) || other.source?.volume !== probe
    const remover = disk.source?.volume === undefined ? removerOf(removed, path) : undefined
    const origin = isForced ? originAt(path) : (remover ?? byName)
    return origin === undefined ? [] : [[path, origin] as const]
  })
}

/** The preset that removed a value, or all of the element that contains it. */
const removerOf = (removed: Origins, path: string): Origin | undefined =>
  removed.get(path) ?? removed.get(parentPath(path))

/** What a preset states about disks and removes of their sources; nothing else can change a medium. */
function ofMedia(preset: CompiledPreset): CompiledPreset[] {
  const disks = disksOf(preset.content.spec)
  const removes = preset.removes.filter(isOfSource)
  if (disks.length + removes.length === 0) return []
  return [{ ...preset, content: { spec: { domain: { devices: { disks } } } }, removes }]
}

/** Whether a preset removes disks, or their media, because of the name of one of these volumes. */
const removesOneOf =
  (names: ReadonlySet<string>) =>
  ({ removes }: CompiledPreset): boolean =>
    removes.some(({ steps: [domain, devices, disks, match, part] }) => {
      const isOfDisks = [domain, devices, disks].every(
        (step, index) => step?.kind === 'key' && step.key === ['domain', 'devices', 'disks'][index],
      )
      const isWhole = part === undefined || (part.kind === 'key' && part.key === 'source')
      const isNamed = match?.kind === 'match' && match.at === 'source.volume' && names.has(match.value)
      return isOfDisks && isNamed && isWhole
    })

const isOfSource = ({ steps }: RemovePath): boolean =>
  ['domain', 'devices', 'disks', undefined, 'source'].every((key, index) => {
    const step = steps[index]
    return step !== undefined && (key === undefined || (step.kind === 'key' && step.key === key))
  })

function warningsFor([first, ...others]: readonly string[]): readonly string[] {
  if (first === undefined) return []
  const more = others.length === 0 ? '' : ` and ${others.length} more`
  return [
    `${first}${more}: can be changed later although presets of strength Enforce set them: the keys of all enforced labels and annotations, and the names of their presets, have more than ${maxCharacters} characters`,
  ]
}
