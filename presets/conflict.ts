import type { Cause } from '../api/cause.ts'
import type { Conflict } from './merge.ts'
import { pathText } from './path.ts'
import type { Source } from './source.ts'
import { compareText, layerOf, originLabel, priorityOf } from './source.ts'

const maxValue = 40

/** One cause for each leaf on which presets of one layer and priority disagree. */
export const conflictCauses = (conflicts: readonly Conflict[]): Cause[] =>
  conflicts
    .map(conflictCause)
    .toSorted((left, right) => compareText(left.field, right.field))
    .filter((cause, index, all) => cause.field !== all[index - 1]?.field || cause.message !== all[index - 1]?.message)

function conflictCause({ path, sources }: Conflict): Cause {
  const [first] = sources
  const layer = layerOf(first?.rank ?? 0)
  const claims = [...new Set(sources.map(claimText))].toSorted(compareText)
  return {
    rule: 'preset-conflict',
    field: pathText(path),
    reason: 'FieldValueInvalid',
    message: `presets of one layer (${layer}) and priority (${priorityOf(first?.rank ?? 0)}) disagree: ${claims.join(', ')}`,
    suggestion: waysOut(layer, sources),
  }
}

const claimText = ({ origin, value }: Source): string => {
  const text = value === undefined ? 'removes it' : `says ${shorten(JSON.stringify(value))}`
  return `"${originLabel(origin)}" ${text}`
}

const shorten = (text: string): string => (text.length > maxValue ? `${text.slice(0, maxValue)}…` : text)

function waysOut(layer: string, sources: readonly Source[]): string {
  const isDefault = layer.endsWith('Default')
  const names = [...new Set(sources.map(({ origin }) => (origin.by === 'preset' ? origin.name : '')))]
  return [
    ...(isDefault ? ['set the field in the VM'] : []),
    'give one preset a higher priority',
    ...(layer === 'namespace Default'
      ? [`exclude one by virtset.io/exclude-presets (${names.toSorted(compareText).join(' or ')})`]
      : []),
    'change the labels so that one matches',
  ].join(', or ')
}
