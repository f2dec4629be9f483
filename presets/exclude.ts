import { excludePresetsAnnotation } from '../api/virtual-machine.ts'
import type { CompiledPreset } from './compile.ts'
import { compareText } from './source.ts'
import { firstWarnings } from './abridge.ts'

export interface Exclusion {
  readonly remaining: readonly CompiledPreset[]
  readonly excluded: readonly CompiledPreset[]
  /** IDs of the presets that the annotation names, and that apply for want of an exemption. */
  readonly refused: readonly string[]
  /** Names in the annotation that none of the presets has. */
  readonly idle: ReadonlySet<string>
}

/** Characters of all annotations. The API server refuses more, but only after the webhooks have answered. */
const longestAnnotation = 256 * 1024

/** The preset names in the annotation, possibly `*`. Empty without the annotation. */
function parseExclusion(annotations: { readonly [key: string]: string } | undefined): ReadonlySet<string> {
  const text = (annotations?.[excludePresetsAnnotation] ?? '').slice(0, longestAnnotation)
  const names = new Set(text.split(',').map((name) => name.trim()))
  names.delete('')
  return names
}

/** Every user may exclude a default of the namespace. Excluding other presets requires the verb `exempt`. */
const needsExemption = ({ strength, namespace }: CompiledPreset): boolean =>
  strength === 'Enforce' || namespace === undefined

const isNamed = ({ name, id }: CompiledPreset, names: ReadonlySet<string>): boolean =>
  names.has('*') || names.has(name) || names.has(id)

/** Each exemption costs a SubjectAccessReview, and one VM can name thousands of enforcing presets of its namespace. */
const maxExemptions = 64

/**
 * Returns the IDs of the presets that the VM's user wants to be exempt from and that the API server must authorize
 * (verb `exempt` on the preset). At most the first 64 by ID; empty without the annotation.
 */
export function exemptionsToAuthorize(
  annotations: { readonly [key: string]: string } | undefined,
  selected: readonly CompiledPreset[],
): readonly string[] {
  const names = parseExclusion(annotations)
  return selected
    .filter((preset) => needsExemption(preset) && isNamed(preset, names))
    .map(({ id }) => id)
    .toSorted(compareText)
    .slice(0, maxExemptions)
}

/** Why a preset that a VM excludes applies. */
export const exemptionMissing = 'to exclude it requires the verb "exempt" on it'

/**
 * @param selected presets that select the object
 * @param exempt IDs of presets that the user may be exempt from; empty if access cannot be reviewed
 */
export function excludePresets(
  annotations: { readonly [key: string]: string } | undefined,
  selected: readonly CompiledPreset[],
  exempt: ReadonlySet<string>,
): Exclusion {
  const names = parseExclusion(annotations)
  if (names.size === 0) return { remaining: selected, excluded: [], refused: [], idle: names }
  const isExcluded = (preset: CompiledPreset) =>
    isNamed(preset, names) && (!needsExemption(preset) || exempt.has(preset.id))
  return {
    remaining: selected.filter((preset) => !isExcluded(preset)),
    excluded: selected.filter(isExcluded),
    refused: selected.filter((preset) => isNamed(preset, names) && !isExcluded(preset)).map(({ id }) => id),
    idle: names.difference(new Set(['*', ...selected.flatMap(({ name, id }) => [name, id])])),
  }
}

export function exclusionWarnings(
  { refused, idle }: Pick<Exclusion, 'refused' | 'idle'>,
  noun: string,
): readonly string[] {
  return [
    ...firstWarnings(
      refused.toSorted(compareText),
      (id) => `${excludePresetsAnnotation}: preset "${id}" applies: ${exemptionMissing}`,
      (count) => `${excludePresetsAnnotation}: ${count} more presets apply`,
    ),
    ...firstWarnings(
      [...idle],
      (name) => `${excludePresetsAnnotation}: no preset "${name}" selects this ${noun}`,
      (count) => `${excludePresetsAnnotation}: ${count} more presets do not select this ${noun}`,
    ),
  ]
}
