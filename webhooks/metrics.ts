import { Counter, Gauge, Histogram } from 'prom-client'
import type { Registry } from 'prom-client'
import type { Review, Verdict } from './review.ts'

export interface ReviewMetrics {
  reviewed(path: string, review: Review, verdict: Verdict, seconds: number): void
  /** A request that was not reviewed: `shed`, `malformed`, `too-large`, `late`, `error`. */
  turnedAway(path: string, why: string): void
}

const secondsBuckets = [0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.5, 1, 5]

/** `virtset_admission_*` in `registry`. */
export function createReviewMetrics(registry: Registry): ReviewMetrics {
  const registers = [registry]
  const reviews = new Counter({
    name: 'virtset_admission_reviews_total',
    help: 'Reviews by path, kind, operation and outcome',
    labelNames: ['path', 'kind', 'operation', 'outcome'],
    registers,
  })
  const refusals = new Counter({
    name: 'virtset_admission_causes_total',
    help: 'Causes of refusals by the rule that was broken',
    labelNames: ['rule'],
    registers,
  })
  const turnedAway = new Counter({
    name: 'virtset_admission_turned_away_total',
    help: 'Requests that were not reviewed, by why',
    labelNames: ['path', 'why'],
    registers,
  })
  const duration = new Histogram({
    name: 'virtset_admission_duration_seconds',
    help: 'Seconds from a body that was read to an answer',
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
  return {
    reviewed(path, { kind, operation }, verdict, seconds) {
      reviews.inc({ path, kind, operation, outcome: verdict.allowed ? 'allowed' : 'refused' })
      duration.observe({ path }, seconds)
      if (!verdict.allowed) for (const { rule } of verdict.causes) refusals.inc({ rule })
      else if (path === '/mutate') operations.observe(verdict.patch?.length ?? 0)
    },
    turnedAway: (path, why) => turnedAway.inc({ path, why }),
  }
}

/** When the certificate that is served ends. */
export function observeCertificate(registry: Registry, served: () => { readonly notAfter: number } | undefined): void {
  new Gauge({
    name: 'virtset_certificate_expiry_timestamp_seconds',
    help: 'Unix time at which the served certificate ends',
    registers: [registry],
    collect() {
      const certificate = served()
      if (certificate !== undefined) this.set(certificate.notAfter / 1000)
    },
  })
}
