import * as fc from 'fast-check'
import { expect, test } from 'vitest'
import { histories, live } from '../rivals/history.ts'

const numRuns = fc.readConfigureGlobal().numRuns ?? 1000
/** A history takes a few milliseconds, ten times that under load. */
const timeoutMs = Math.max(600_000, numRuns * 50)

test(
  'a claim is attached to one VM that writes, or to several that read, and to another once it is free, however late caches are',
  () => {
    expect(() => fc.assert(fc.property(histories(80), live), { numRuns })).not.toThrow()
  },
  timeoutMs,
)
