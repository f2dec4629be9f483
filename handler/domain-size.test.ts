import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { expect, test } from 'vitest'
import { withoutLargeParts } from './domain-size.ts'

test('a shortened message does not keep the whole one in memory', () => {
  setFlagsFromString('--expose-gc')
  const collect: () => void = runInNewContext('gc')
  const report = { vmUID: '', phase: 'Running', reason: 'booted', observedAt: '2026-01-02T03:04:05Z' } as const
  const heapUsed = () => {
    collect()
    return process.memoryUsage().heapUsed
  }
  const before = heapUsed()
  const kept = Array.from({ length: 20 }, (_, index) =>
    withoutLargeParts({ ...report, message: JSON.parse(`"${index}${'x'.repeat(1_000_000)}"`) }),
  )
  expect(heapUsed() - before).toBeLessThan(2_000_000)
  expect(new Set(kept.map(({ message }) => message)).size).toBe(20)
})
