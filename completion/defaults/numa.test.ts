import { expect, test } from 'vitest'
import type { Domain } from '../../api/domain/domain.ts'
import { applied } from '../../test/applied.ts'
import { numaCellId, numaCpus } from './numa.ts'

test.each<[string, Domain, Domain]>([
  [
    'nodes are numbered, and the first gets the other CPUs',
    { vcpu: { value: 4 }, cpu: { numa: { cells: [{ memory: 1024 }, { memory: 1024, cpus: '2-3' }] } } },
    {
      cpu: {
        numa: {
          cells: [
            { id: 0, memory: 1024, unit: 'KiB', cpus: '0-1' },
            { id: 1, memory: 1024, unit: 'KiB', cpus: '2-3' },
          ],
        },
      },
    },
  ],
  [
    'what is set does not change',
    { vcpu: { value: 2 }, cpu: { numa: { cells: [{ id: 1, memory: 1, unit: 'GiB', cpus: '0' }] } } },
    {},
  ],
])('%s', (_, domain, expected) => {
  expect(applied([numaCellId, numaCpus], domain)).toEqual({ ...domain, ...expected })
})
