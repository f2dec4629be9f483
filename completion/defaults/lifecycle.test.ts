import { expect, test } from 'vitest'
import type { Domain } from '../../api/domain/domain.ts'
import { applied } from '../../test/applied.ts'
import { onCrash, onPoweroff, onReboot } from './lifecycle.ts'

test.each<[string, Domain, Domain]>([
  [
    'a VM that powers off ends, and one that reboots continues',
    {},
    { onPoweroff: 'destroy', onReboot: 'restart', onCrash: 'destroy' },
  ],
  ['what is set does not change', { onPoweroff: 'restart', onReboot: 'destroy', onCrash: 'preserve' }, {}],
])('%s', (_, domain, expected) => {
  expect(applied([onPoweroff, onReboot, onCrash], domain)).toEqual({ ...domain, ...expected })
})
