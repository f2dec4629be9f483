import { expect, test } from 'vitest'
import type { Domain } from '../../api/domain/domain.ts'
import { applied, i440fx, q35 } from '../../test/applied.ts'
import { q35Watchdog, watchdogAction } from './watchdog.ts'

test.each<[string, Domain, Domain]>([
  [
    'resets the guest',
    { os: i440fx, devices: { watchdogs: [{ model: 'i6300esb' }] } },
    { devices: { watchdogs: [{ model: 'i6300esb', action: 'reset' }] } },
  ],
  ['of q35 is an iTCO', { os: q35, devices: {} }, { devices: { watchdogs: [{ model: 'itco', action: 'reset' }] } }],
  [
    'of q35 has the action of another one',
    { os: q35, devices: { watchdogs: [{ model: 'i6300esb', action: 'poweroff' }] } },
    {
      devices: {
        watchdogs: [
          { model: 'i6300esb', action: 'poweroff' },
          { model: 'itco', action: 'poweroff' },
        ],
      },
    },
  ],
])('%s', (_, domain, expected) => {
  expect(applied([watchdogAction, q35Watchdog], domain)).toEqual({ ...domain, ...expected })
})
