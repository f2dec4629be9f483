import { expect, test } from 'vitest'
import type { Domain } from '../../api/domain/domain.ts'
import { applied } from '../../test/applied.ts'
import { clock, clockAdjustment } from './clock.ts'

test.each<[string, Domain, Domain]>([
  ['the clock is in UTC', {}, { clock: { offset: 'utc' } }],
  ['local time remains', { clock: { offset: 'localtime' } }, {}],
  [
    'a variable clock starts in UTC',
    { clock: { offset: 'variable' } },
    { clock: { offset: 'variable', adjustment: 0, basis: 'utc' } },
  ],
])('%s', (_, domain, expected) => {
  expect(applied([clock, clockAdjustment], domain)).toEqual({ ...domain, ...expected })
})
