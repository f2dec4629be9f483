import { Counter, Gauge, Histogram } from 'prom-client'
import type { Registry } from 'prom-client'
import { isReading, type SessionRequest } from './session-request.ts'

type Kind = SessionRequest['kind']

export interface SessionMetrics {
  opened(kind: Kind): void
  refused(kind: Kind, code: number): void
  ended(kind: Kind, seconds: number, bytes: { readonly toGuest: number; readonly fromGuest: number }): void
}

/** `virtset_session*` in `registry`. */
export function createSessionMetrics(registry: Registry): SessionMetrics {
  const registers = [registry]
  const open = new Gauge({
    name: 'virtset_sessions',
    help: 'Open sessions with guests, by kind',
    labelNames: ['kind'],
    registers,
  })
  const requests = new Counter({
    name: 'virtset_sessions_total',
    help: 'Requests for sessions, by kind and HTTP status; 101 and 200 are opened sessions',
    labelNames: ['kind', 'code'],
    registers,
  })
  const bytes = new Counter({
    name: 'virtset_session_bytes_total',
    help: 'Bytes that sessions have carried, by kind and direction; counted when a session ends',
    labelNames: ['kind', 'direction'],
    registers,
  })
  const duration = new Histogram({
    name: 'virtset_session_duration_seconds',
    help: 'Seconds for which a session was open',
    labelNames: ['kind'],
    buckets: [1, 10, 60, 600, 3600, 36_000],
    registers,
  })
  return {
    opened(kind) {
      open.inc({ kind })
      requests.inc({ kind, code: isReading(kind) ? 200 : 101 })
    },
    refused: (kind, code) => requests.inc({ kind, code }),
    ended(kind, seconds, { toGuest, fromGuest }) {
      open.dec({ kind })
      duration.observe({ kind }, seconds)
      bytes.inc({ kind, direction: 'to-guest' }, toGuest)
      bytes.inc({ kind, direction: 'from-guest' }, fromGuest)
    },
  }
}
