import { attribute, children, element } from '../description.ts'
import { oneOf, yesNo } from '../scalar.ts'

const host = { reach: 'host' } as const

const event = element('One event that the node counts for this VM.', {
  name: attribute(
    oneOf(
      'cmt',
      'mbmt',
      'mbml',
      'cpu_cycles',
      'instructions',
      'cache_references',
      'cache_misses',
      'branch_instructions',
      'branch_misses',
      'bus_cycles',
      'stalled_cycles_frontend',
      'stalled_cycles_backend',
      'ref_cpu_cycles',
      'cpu_clock',
      'task_clock',
      'page_faults',
      'context_switches',
      'cpu_migrations',
      'page_faults_min',
      'page_faults_maj',
      'alignment_faults',
      'emulation_faults',
    ),
    'The event.',
    host,
  ),
  enabled: attribute(yesNo, 'Whether it is counted.', host),
})

export const perf = element('Performance events that the node counts for this VM.', {
  events: children('event', event, 'Each event.', { ...host, key: [['name']] }),
})
