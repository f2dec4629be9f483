import { expect, test } from 'vitest'
import type { Domain } from '../../api/domain/domain.ts'
import { applied } from '../../test/applied.ts'
import { asyncTeardown, featureState, hypervMode } from './feature.ts'

test.each<[string, Domain, Domain]>([
  ['without features, nothing is added', {}, {}],
  [
    'listed features are on',
    { features: { pmu: {}, smm: { state: false } } },
    { features: { pmu: { state: true }, smm: { state: false } } },
  ],
  [
    'asynchronous teardown is enabled if listed',
    { features: { asyncTeardown: {} } },
    { features: { asyncTeardown: { enabled: true } } },
  ],
  ['the mode of Hyper-V is custom', { features: { hyperv: {} } }, { features: { hyperv: { mode: 'custom' } } }],
])('%s', (_, domain, expected) => {
  expect(applied([featureState, asyncTeardown, hypervMode], domain)).toEqual({ ...domain, ...expected })
})
