import type { Operation } from '../webhooks/patch.ts'
import type { Verdict } from '../webhooks/review.ts'

/** What a verdict changes, as the API server reads it. */
export const operationsOf = (verdict: Verdict): readonly Operation[] =>
  verdict.allowed && verdict.patch !== undefined
    ? JSON.parse(Buffer.from(verdict.patch.encoded, 'base64').toString())
    : []
