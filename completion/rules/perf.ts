import { duplicate } from './finding.ts'
import { example, type Rule } from './rule.ts'

const counting = (...names: readonly ('cmt' | 'mbmt')[]) => ({
  perf: { events: names.map((name) => ({ name, enabled: true })) },
})

export const perfEvents: Rule = {
  id: 'perf-events',
  description: 'Each perf event must be listed once.',
  about: ['perf'],
  *check({ domain: { perf } }) {
    const seen = new Map<string, number>()
    for (const [index, { name }] of (perf?.events ?? []).entries()) {
      if (name === undefined) continue
      const other = seen.get(name)
      if (other === undefined) seen.set(name, index)
      else yield duplicate(`spec.domain.perf.events[${index}].name`, name, `is already in events[${other}]`)
    }
  },
  example: example(counting('cmt', 'cmt'), counting('cmt', 'mbmt')),
}
