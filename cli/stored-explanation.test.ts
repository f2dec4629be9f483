import { expect, test } from 'vitest'
import { storedVm } from '../test/stored-vm.ts'
import { explanationOfStored } from './stored-explanation.ts'

test('says which integers of a stored object are shown rounded', () => {
  const nothing = {
    origins: new Map(),
    removed: new Map(),
    skipped: [],
    enforced: new Map(),
    shortened: new Map(),
    filled: new Set<string>(),
    left: 0,
  }
  const provenance = { ...nothing, overridden: new Map() }
  const tolerations = [2 ** 53 - 1, 2 ** 53].map((tolerationSeconds) => ({ key: 'a', tolerationSeconds }))
  const stored = storedVm({ spec: { ...storedVm().spec, tolerations } })
  expect(explanationOfStored(stored, provenance, [], () => undefined).warnings).toEqual([
    'spec.tolerations[1].tolerationSeconds is beyond 2^53, and shown rounded',
  ])
})
