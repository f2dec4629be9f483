import type { Cause } from '../api/cause.ts'
import { listCauses, noCauses, report } from '../api/causes.ts'
import { pathText } from '../api/path.ts'
import { shorten } from '../api/shorten.ts'
import { maxNamed, nameSome } from './abridge.ts'
import type { Conflict } from './merge.ts'
import type { Source } from './source.ts'
import { compareText, layerOf, originLabel, priorityOf } from './source.ts'

const maxValue = 40

/**
 * One cause for each leaf on which presets of one layer and priority disagree, sorted by field. If there are too many,
 * those that come first in the object are listed.
 */
export function conflictCauses(conflicts: readonly Conflict[], noun = 'VM'): Cause[] {
  const causes = noCauses()
  for (const conflict of conflicts) report(causes, () => conflictCause(conflict, noun))
  causes.list.sort((left, right) => compareText(left.field, right.field) || compareText(left.message, right.message))
  const isRepeated = ({ field, message }: Cause, before: Cause | undefined) =>
    field === before?.field && message === before.message
  const list = causes.list.filter((cause, index, all) => !isRepeated(cause, all[index - 1]))
  return listCauses({ list, more: causes.more }, 'spec')
}

function conflictCause({ path, sources }: Conflict, noun: string): Cause {
  const [first] = sources
  const layer = layerOf(first?.rank ?? 0)
  const presets = new Set(sources.map(({ origin }) => originLabel(origin)))
  const claims = [...new Set(differing(sources).map(claimText))].toSorted(compareText)
  const more = presets.size > claims.length ? ` and ${presets.size - claims.length} more presets` : ''
  return {
    rule: 'preset-conflict',
    field: pathText(path),
    reason: 'FieldValueInvalid',
    message: `presets of one layer (${layer}) and priority (${priorityOf(first?.rank ?? 0)}) disagree: ${claims.join(', ')}${more}`,
    suggestion: waysOut(layer, sources, noun),
  }
}

/** The sources to name. Those with different values come first, because presets that agree do not show the conflict. */
function differing(sources: readonly Source[]): readonly Source[] {
  const byValue = Map.groupBy(sources, ({ value }) => JSON.stringify(value))
  const firsts = [...byValue.values()].flatMap(([first]) => first ?? []).slice(0, maxNamed)
  return [...firsts, ...sources.filter((source) => !firsts.includes(source))].slice(0, maxNamed)
}

const claimText = ({ origin, value }: Source): string => {
  const text = value === undefined ? 'removes it' : `sets ${shorten(JSON.stringify(value), maxValue)}`
  return `"${originLabel(origin)}" ${text}`
}

function waysOut(layer: string, sources: readonly Source[], noun: string): string {
  const isDefault = layer.endsWith('Default')
  const names = [...new Set(sources.map(({ origin }) => (origin.by === 'preset' ? origin.name : '')))]
  return [
    ...(isDefault ? [`set the field in the ${noun}`] : []),
    'give one preset a higher priority',
    ...(layer === 'namespace Default'
      ? [`exclude one by virtset.io/exclude-presets (${nameSome(names, ' or ')})`]
      : []),
    'change the labels so that one matches',
  ].join(', or ')
}
