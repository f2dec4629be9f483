export const powerVerbs = ['start', 'stop', 'restart'] as const
export type PowerVerb = (typeof powerVerbs)[number]

type Reasons = { readonly [V in PowerVerb]?: string }

const running = { start: 'it is already running' }
const off = { stop: 'it is not running', restart: 'it is not running' }

/** What the webhooks refuse in a phase of a config. A stop while it stops is not refused: it cancels a restart. */
const reasons = new Map<string, Reasons>([
  ['Stopped', off],
  ['Failed', off],
  ['Starting', running],
  ['Running', running],
  ['Unknown', running],
  ['Stopping', { start: 'it is stopping; start it after it has stopped', restart: 'it is stopping' }],
])

/** Why a config cannot be started, stopped or restarted in its phase; an unknown phase excludes nothing. */
export const excludedBy = (verb: PowerVerb, phase: string): string | undefined => reasons.get(phase)?.[verb]
