import * as fc from 'fast-check'
import { expect, test } from 'vitest'
import { histories, live } from '../life/history.ts'

const numRuns = fc.readConfigureGlobal().numRuns ?? 400
/** A history takes a few milliseconds, ten times that under load. */
const timeoutMs = Math.max(60_000, numRuns * 50)

test(
  'a VM has at most one guest, none is lost, and each end has a reason, whatever is lost, late or out of order',
  () => {
    expect(() => fc.assert(fc.property(histories(60), live), { numRuns })).not.toThrow()
  },
  timeoutMs,
)
