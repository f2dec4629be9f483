import type { Domain } from '../../api/domain/domain.ts'
import { testRule, testSilent } from '../../test/rule-table.ts'

const counting = (...names: ('cmt' | 'mbmt')[]): Domain => ({
  perf: { events: names.map((name) => ({ name, enabled: true })) },
})

testRule('perf-events', [
  {
    refused: counting('cmt', 'mbmt', 'cmt'),
    causes: ['spec.domain.perf.events[2].name: Duplicate value: "cmt": is already in events[0]'],
    accepted: counting('cmt', 'mbmt'),
  },
])

testSilent('perf-events', [{ perf: { events: [{ enabled: true }, { enabled: true }] } }])
