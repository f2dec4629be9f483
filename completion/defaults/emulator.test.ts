import { expect, test } from 'vitest'
import type { Domain } from '../../api/domain/domain.ts'
import { applied } from '../../test/applied.ts'
import { emulator } from './emulator.ts'

test.each<[string, Domain, Domain]>([
  ['the emulator is that of the node', {}, { devices: { emulator: '/usr/bin/qemu-system-x86_64' } }],
  ['another one remains', { devices: { emulator: '/qemu' } }, {}],
])('%s', (_, domain, expected) => {
  expect(applied([emulator], domain)).toEqual({ ...domain, ...expected })
})
