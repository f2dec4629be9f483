import { expect, test } from 'vitest'
import { parseEndpointAddress } from './endpoint-address.ts'

test.each([
  ['10.0.0.1:8444', { host: '10.0.0.1', port: 8444 }],
  ['[fd00::1]:8444', { host: 'fd00::1', port: 8444 }],
  ['010.0.0.1:8444', undefined],
  ['999.1.1.1:8444', undefined],
  ['[10.0.0.1]:8444', undefined],
  ['[fe80::1%eth0]:8444', undefined],
  ['10.0.0.1', undefined],
  ['fd00::1:8444', undefined],
  ['example.org:8444', undefined],
  ['10.0.0.1:99999', undefined],
  ['10.0.0.1:8444/path', undefined],
])('%s', (address, expected) => {
  expect(parseEndpointAddress(address)).toEqual(expected)
})
