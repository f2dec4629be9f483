import { expect, test } from 'vitest'
import { storedVm } from '../test/stored-vm.ts'
import { decodeProvenance } from '../completion/provenance.ts'
import { explanationText } from './explanation-text.ts'
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

test('shows a stored provenance in one line for each field, whatever its names are', () => {
  const by = [
    ['', 'a\n::error::b', '1'],
    ['', 'c', 'd\n::error::e'],
  ]
  const skip = [['spec.x\n::error::f', 1, 'g\n::error::h']]
  const provenance = decodeProvenance(
    JSON.stringify({ v: 1, by, at: { spec: 0 }, gone: { 'i\n::error::j': 1 }, skip }),
  )!
  const text = explanationText(
    explanationOfStored(storedVm(), provenance, [], () => undefined),
    (_, plain) => plain,
    80,
  )
  expect(text).toContain(String.raw`a\n::error::b`)
  expect(text.split('\n').filter((line) => line.startsWith('::'))).toEqual([])
})
