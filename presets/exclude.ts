import { excludePresetsAnnotation } from '../api/machine.ts'
import type { CompiledPreset } from './compile.ts'
import { compareText } from './source.ts'

export interface Exclusion {
  readonly remaining: readonly CompiledPreset[]
  readonly excluded: readonly CompiledPreset[]
  readonly warnings: readonly string[]
}

/** What the annotation names: names, or every preset. Empty: it is not there. */
function parseExclusion(annotations: { readonly [key: string]: string } | undefined): ReadonlySet<string> {
  const names = new Set((annotations?.[excludePresetsAnnotation] ?? '').split(',').map((name) => name.trim()))
  names.delete('')
  return names
}

/** Anybody may decline a namespaced default. What is enforced, or given for the whole cluster, only who may exempt it. */
const needsExemption = ({ strength, namespace }: CompiledPreset): boolean =>
  strength === 'Enforce' || namespace === undefined

const isNamed = ({ name, id }: CompiledPreset, names: ReadonlySet<string>): boolean =>
  names.has('*') || names.has(name) || names.has(id)

/**
 * The ids of the presets that the VM's user wants to be exempt from and of which the API server has to say whether they may:
 * verb `exempt` on the preset. Empty for a VM without the annotation.
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
}

/** @param exempt ids of presets that the user may be exempt from; empty where nobody can be asked */
export function excludePresets(
  annotations: { readonly [key: string]: string } | undefined,
  selected: readonly CompiledPreset[],
  exempt: ReadonlySet<string>,
): Exclusion {
  const names = parseExclusion(annotations)
  if (names.size === 0) return { remaining: selected, excluded: [], warnings: [] }
  const isExcluded = (preset: CompiledPreset) =>
    isNamed(preset, names) && (!needsExemption(preset) || exempt.has(preset.id))
  const refused = selected.filter((preset) => isNamed(preset, names) && !isExcluded(preset))
  const known = new Set(['*', ...selected.flatMap(({ name, id }) => [name, id])])
  const idle = [...names.difference(known)]
  return {
    remaining: selected.filter((preset) => !isExcluded(preset)),
    excluded: selected.filter(isExcluded),
    warnings: [
      ...refused
        .map(({ id }) => id)
        .toSorted(compareText)
        .map((id) => `${excludePresetsAnnotation}: preset "${id}" stays, since you may not "exempt" it`),
      ...idle.map((name) => `${excludePresetsAnnotation}: no preset "${name}" selects this VM`),
    ],
  }
}
