import type { Cause } from '../api/cause.ts'
import type { LongList } from './merge.ts'
import { pathText } from '../api/path.ts'
import { maxNamed } from './abridge.ts'
import { compareText, originLabel } from './source.ts'

/** One cause for each list that presets make too long. Names the presets with the most items. */
export const longListCauses = (lists: readonly LongList[]): Cause[] =>
  lists.map(({ path, length, maxItems, sources }) => {
    const largest = sources
      .map(({ origin, value }) => ({ label: originLabel(origin), items: Array.isArray(value) ? value.length : 1 }))
      .toSorted((one, other) => other.items - one.items || compareText(one.label, other.label))
    const named = largest.slice(0, maxNamed).map(({ label, items }) => `"${label}" has ${items}`)
    const rest = largest.length > maxNamed ? ` and ${largest.length - maxNamed} more presets` : ''
    return {
      rule: 'list-length',
      field: pathText(path),
      value: length,
      reason: 'FieldValueTooMany',
      message: `must have at most ${maxItems} items, and has ${length} including those of presets: ${named.join(', ')}${rest}`,
      suggestion: 'change the labels so that fewer of these presets match, or shorten their lists',
    }
  })
