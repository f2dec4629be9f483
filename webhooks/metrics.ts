import { Counter, Gauge, Histogram } from 'prom-client'
import type { Registry } from 'prom-client'
import type { Phase as CompletionPhase } from '../completion/complete.ts'
import type { ConnectionRejection } from '../runtime/guard.ts'
import type { AdmissionRequest, AdmissionResult } from './admission/request.ts'

export interface AdmissionMetrics {
  handled(path: string, request: AdmissionRequest, result: AdmissionResult, seconds: number): void
  /** A patch of `bytes` of JSON was sent. */
  patched(bytes: number): void
  /** A request was rejected before it was handled. */
  rejected(path: string, reason: RejectionReason): void
  /** A connection was closed before a request was read from it. */
  readonly connectionRejected: (reason: ConnectionRejection) => void
}

/**
 * `overloaded`: too many requests or bytes at once; `deadline`: the body did not arrive in time; `timeout`: no result
 * within the caller's timeout; `unauthenticated`: not sent by the API server; `error`: internal error.
 */
export type RejectionReason =
  | 'overloaded'
  | 'deadline'
  | 'timeout'
  | 'unauthenticated'
  | 'too-large'
  | 'malformed'
  | 'error'

const secondsBuckets = [0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.5, 1, 5]

/** `virtset_admission_*` in `registry`. */
export function createAdmissionMetrics(registry: Registry): AdmissionMetrics {
  const registers = [registry]
  const reviews = new Counter({
    name: 'virtset_admission_reviews_total',
    help: 'Admission requests by path, kind, operation and outcome',
    labelNames: ['path', 'kind', 'operation', 'outcome'],
    registers,
  })
  const refusals = new Counter({
    name: 'virtset_admission_causes_total',
    help: 'Causes of refusals by rule',
    labelNames: ['rule'],
    registers,
  })
  const rejections = new Counter({
    name: 'virtset_admission_rejected_total',
    help: 'Admission requests that were rejected before they were handled, by reason',
    labelNames: ['path', 'reason'],
    registers,
  })
  const connections = new Counter({
    name: 'virtset_connections_rejected_total',
    help: 'Connections that were closed before a request was read, by reason',
    labelNames: ['reason'],
    registers,
  })
  const duration = new Histogram({
    name: 'virtset_admission_duration_seconds',
    help: 'Seconds from a request that was read to its response',
    labelNames: ['path'],
    buckets: secondsBuckets,
    registers,
  })
  const operations = new Histogram({
    name: 'virtset_admission_patch_operations',
    help: 'Operations in a patch',
    buckets: [0, 1, 2, 4, 8, 16, 32, 64],
    registers,
  })
  const bytes = new Histogram({
    name: 'virtset_admission_patch_bytes',
    help: 'Bytes of JSON in a patch',
    buckets: [256, 1024, 2048, 4096, 8192, 16_384, 65_536, 262_144, 1_048_576],
    registers,
  })
  return {
    patched: (count) => bytes.observe(count),
    handled(path, { kind, operation }, result, seconds) {
      reviews.inc({ path, kind, operation, outcome: result.allowed ? 'allowed' : 'refused' })
      duration.observe({ path }, seconds)
      if (!result.allowed) for (const { rule } of result.causes) refusals.inc({ rule })
      else if (path === '/mutate') operations.observe(result.patch?.operations ?? 0)
    },
    rejected: (path, reason) => rejections.inc({ path, reason }),
    connectionRejected: (reason) => connections.inc({ reason }),
  }
}

/** The phases of a completion, in order. */
const phases = ['claim', 'presets', 'defaults', 'rules', 'provenance', 'patch'] as const
export type Phase = CompletionPhase | 'patch'

/** The metrics of the engine. */
export interface CompletionMetrics {
  phase(phase: Phase, seconds: number): void
  /** The number of presets that matched a VM. */
  matched(presets: number): void
}

const phaseBuckets = [0.00005, 0.0001, 0.0002, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.05, 0.5]

/** `virtset_completion_*` in `registry`. */
export function createCompletionMetrics(registry: Registry): CompletionMetrics {
  const registers = [registry]
  const duration = new Histogram({
    name: 'virtset_completion_phase_seconds',
    help: 'Seconds of a completion by phase',
    labelNames: ['phase'],
    buckets: phaseBuckets,
    registers,
  })
  const matched = new Histogram({
    name: 'virtset_completion_presets_matched',
    help: 'Presets that matched a VM',
    buckets: [0, 1, 2, 3, 5, 10, 20, 50],
    registers,
  })
  const byPhase = new Map<Phase, Histogram.Internal<'phase'>>(
    phases.map((phase) => [phase, duration.labels({ phase })]),
  )
  return {
    phase: (phase: Phase, seconds) => byPhase.get(phase)?.observe(seconds),
    matched: (presets) => matched.observe(presets),
  }
}

/** Measures nothing. */
export const unmeasured: CompletionMetrics = { phase() {}, matched() {} }

/** Gauges for the expiry of the served certificate and of its authority. */
export function observeCertificate(
  registry: Registry,
  served: () => { readonly notAfter: number; readonly authorityNotAfter?: number } | undefined,
): void {
  const gauge = (
    name: string,
    help: string,
    read: (of: NonNullable<ReturnType<typeof served>>) => number | undefined,
  ) =>
    new Gauge({
      name,
      help,
      registers: [registry],
      collect() {
        const certificate = served()
        const ms = certificate === undefined ? undefined : read(certificate)
        if (ms !== undefined) this.set(ms / 1000)
      },
    })
  gauge(
    'virtset_certificate_expiry_timestamp_seconds',
    'Unix time at which the served certificate expires',
    ({ notAfter }) => notAfter,
  )
  gauge(
    'virtset_certificate_authority_expiry_timestamp_seconds',
    'Unix time at which the authority of the served certificate expires',
    ({ authorityNotAfter }) => authorityNotAfter,
  )
}
