import type { Cause } from '../api/cause.ts'
import { listCauses, noCauses, report } from '../api/causes.ts'
import { nameSome } from './abridge.ts'
import type { CompiledPreset } from './compile.ts'
import { compareText } from './source.ts'

/** One cause for each exclusive group of which several presets apply. Priority does not choose among them. */
export function exclusiveCauses(presets: readonly CompiledPreset[]): Cause[] {
  const causes = noCauses()
  const groups = [...Map.groupBy(presets, ({ exclusiveGroup }) => exclusiveGroup)]
  for (const [group = '', members] of groups.toSorted(([left = ''], [right = '']) => compareText(left, right))) {
    if (group !== '' && members.length > 1) report(causes, () => groupCause(group, members))
  }
  return listCauses(causes, 'metadata.labels')
}

const groupCause = (group: string, members: readonly CompiledPreset[]): Cause => ({
  rule: 'preset-exclusive-group',
  field: 'metadata.labels',
  reason: 'FieldValueInvalid',
  message: `select ${members.length} presets of the exclusive group "${group}", of which at most one may match: ${nameSome(
    members.map(({ id }) => id).toSorted(compareText),
  )}`,
  suggestion: 'change the labels so that one of them matches',
})
