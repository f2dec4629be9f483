import { expect, test } from 'vitest'
import { bundledCapabilities } from '../completion/capabilities.ts'
import { readCapabilities, type Capabilities } from './capabilities.ts'

const { machines, firmware } = bundledCapabilities

test.each<[string, Partial<Capabilities>, string]>([
  ['whose emulator is another program', { emulator: '/usr/bin/perl' }, 'emulator'],
  [
    'in which an alias is that of several machine types',
    { machines: machines.map((one) => ({ ...one, alias: 'pc' })) },
    'each alias',
  ],
  ['with firmware in another order', { firmware: firmware.toReversed() }, 'sorted by name'],
])('a profile %s is refused', (_, over, message) => {
  expect(() => readCapabilities({ ...bundledCapabilities, ...over })).toThrow(message)
})
