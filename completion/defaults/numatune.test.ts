import { expect, test } from 'vitest'
import type { Domain } from '../../api/domain/domain.ts'
import { applied } from '../../test/applied.ts'
import { numatuneMemory, numatuneMode, numatuneNodeMode } from './numatune.ts'

test.each<[string, Domain, Domain]>([
  ['without settings, nothing is added', {}, {}],
  [
    'memory follows virtual CPUs placed by numad',
    { vcpu: { placement: 'auto' } },
    { numatune: { memory: { placement: 'auto', mode: 'strict' } } },
  ],
  [
    'each node of the guest has mode strict',
    { numatune: { memnodes: [{ cellid: 0, nodeset: '1' }] } },
    { numatune: { memnodes: [{ cellid: 0, nodeset: '1', mode: 'strict' }] } },
  ],
])('%s', (_, domain, expected) => {
  expect(applied([numatuneMemory, numatuneMode, numatuneNodeMode], domain)).toEqual({ ...domain, ...expected })
})
