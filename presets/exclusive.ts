import type { Cause } from '../api/cause.ts'
import type { CompiledPreset } from './compile.ts'
import { compareText } from './source.ts'

/** A cause for each exclusive group of which more than one preset takes part in a VM. Priority does not choose among them. */
export function exclusiveCauses(presets: readonly CompiledPreset[]): Cause[] {
  const groups = Map.groupBy(presets, ({ exclusiveGroup }) => exclusiveGroup)
  return [...groups]
    .flatMap(([group, members]) => (group === undefined || members.length < 2 ? [] : [{ group, members }]))
    .toSorted((left, right) => compareText(left.group, right.group))
    .map(({ group, members }) => ({
      rule: 'preset-exclusive-group',
      field: 'metadata.labels',
      reason: 'FieldValueInvalid',
      message: `select ${members.length} presets of the exclusive group "${group}", of which one at most may match: ${members
        .map(({ id }) => id)
        .toSorted(compareText)
        .join(', ')}`,
      suggestion: 'change the labels so that one of them matches',
    }))
}
