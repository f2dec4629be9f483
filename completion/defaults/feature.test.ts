import { expect, test } from 'vitest'
import type { Domain } from '../../api/domain/domain.ts'
import { applied } from '../../test/applied.ts'
import { asyncTeardown, featureState, hypervMode } from './feature.ts'

test.each<[string, Domain, Domain]>([
  ['without features, nothing is added', {}, {}],
  [
    'what is named is on',
    { features: { pmu: {}, smm: { state: false } } },
    { features: { pmu: { state: true }, smm: { state: false } } },
  ],
  [
    'memory is given back where it is named',
    { features: { asyncTeardown: {} } },
    { features: { asyncTeardown: { enabled: true } } },
  ],
  ['of Hyper-V there is what is listed', { features: { hyperv: {} } }, { features: { hyperv: { mode: 'custom' } } }],
])('%s', (_, domain, expected) => {
  expect(applied([featureState, asyncTeardown, hypervMode], domain)).toEqual({ ...domain, ...expected })
})
