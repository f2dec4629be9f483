import { numberOf } from '../defaults/reading.ts'
import { invalid, required } from './finding.ts'
import { example, type Rule } from './rule.ts'

const range = [{ start: 0, target: 1000, count: 1 }]

export const idmapBoth: Rule = {
  id: 'idmap',
  description: 'User ids and group ids must be mapped together, starting with 0.',
  about: ['idmap'],
  *check({ domain: { idmap } }) {
    const { uids = [], gids = [] } = idmap ?? {}
    if (uids.length === 0 && gids.length === 0) return
    for (const [key, ranges] of [
      ['uids', uids],
      ['gids', gids],
    ] as const) {
      const field = `spec.domain.idmap.${key}`
      const starts = ranges.flatMap(({ start }) => numberOf(start) ?? [])
      const first = Math.min(...starts)
      if (ranges.length === 0) yield required(field, 'must be set: users and groups must be mapped together')
      else if (starts.length > 0 && first !== 0) yield invalid(field, first, 'must start with 0, the id of root')
    }
  },
  example: example({ idmap: { uids: range } }, { idmap: { uids: range, gids: range } }),
}
