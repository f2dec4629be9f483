import { expect, test } from 'vitest'
import { ipv6Bytes } from './ipv6.ts'

test.each<[string, string]>([
  ['::', '00000000000000000000000000000000'],
  ['::1', '00000000000000000000000000000001'],
  ['fe80::5654', 'fe800000000000000000000000005654'],
  ['FD00:1:2:3:4:5:6:7', 'fd000001000200030004000500060007'],
  ['fd00::', 'fd000000000000000000000000000000'],
  ['::ffff:10.0.0.5', '00000000000000000000ffff0a000005'],
])('%s', (address, hex) => {
  expect(ipv6Bytes(address).toString('hex')).toBe(hex)
})

test.each(['', '10.0.0.5', 'fe80::1%eth0', 'fd00::5/64'])('%s is refused', (address) => {
  expect(() => ipv6Bytes(address)).toThrow('is not an IPv6 address')
})
