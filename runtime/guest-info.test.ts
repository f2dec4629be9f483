import { expect, test } from 'vitest'
import { boundGuestInfo, type GuestInfo } from './guest-info.ts'

const mac = '52:54:00:aa:bb:01'
const withIps = (...ips: unknown[]) => ({ interfaces: [{ mac, ips }] })

test.each<[string, unknown, GuestInfo]>([
  ['nothing', undefined, {}],
  ['a list', [], {}],
  [
    'what a Linux guest reports',
    {
      hostname: 'linux',
      os: { id: 'debian', name: 'Debian GNU/Linux 13 (trixie)', version: '13', kernel: '6.12.48' },
      interfaces: [
        { mac: '00:00:00:00:00:00', ips: ['127.0.0.1', '::1'] },
        { mac: '52:54:00:AA:BB:01', ips: ['fe80::1', '10.244.1.7', 'fd00::7'] },
      ],
    },
    {
      hostname: 'linux',
      os: { id: 'debian', name: 'Debian GNU/Linux 13 (trixie)', version: '13', kernel: '6.12.48' },
      interfaces: [{ mac, ips: ['10.244.1.7', 'fd00::7'] }],
    },
  ],
  ['values of other types', { hostname: 7, os: { id: null, name: {} }, interfaces: 'eth0' }, {}],
  ['empty texts', { hostname: ' ', os: { id: '' } }, {}],
  ['control characters', { hostname: 'a\u001b[2Jb\nc' }, { hostname: 'a\ufffd[2Jb\ufffdc' }],
  ['text of the other direction', { hostname: 'a\u202eb' }, { hostname: 'a\ufffdb' }],
  ['a long name', { hostname: 'a'.repeat(1e6) }, { hostname: 'a'.repeat(253) }],
  ['a long name of its system', { os: { name: 'a'.repeat(1e6) } }, { os: { name: 'a'.repeat(128) } }],
  ['keys that are not known', { os: { id: 'a', b: 'c' }, users: ['root'] }, { os: { id: 'a' } }],
  ['values other than addresses', withIps('10.0.0.1; rm', '10.0.0.256', 'fd00::1%eth0', 7, null, '010.0.0.1'), {}],
  [
    'addresses of its link and of no host',
    withIps('169.254.0.1', 'fe80::1', '224.0.0.1', '0.0.0.0', '::', 'ff02::1', '0:0::1', '::ffff:127.0.0.1'),
    {},
  ],
  [
    'an address of private networks',
    withIps('192.168.0.9', '172.16.0.1'),
    withIps('172.16.0.1', '192.168.0.9') as GuestInfo,
  ],
  [
    'an interface without a MAC address',
    { interfaces: [{ mac: 'eth0', ips: ['10.0.0.1'] }, { ips: ['10.0.0.2'] }] },
    {},
  ],
  [
    'a bridge with the MAC address of its port',
    {
      interfaces: [
        { mac, ips: [] },
        { mac, ips: ['10.0.0.1'] },
        { mac, ips: ['10.0.0.2', '10.0.0.1'] },
      ],
    },
    { interfaces: [{ mac, ips: ['10.0.0.1', '10.0.0.2'] }] },
  ],
])('of %s, the handler takes what is valid', (_, claimed, taken) => {
  expect(boundGuestInfo(claimed)).toEqual(taken)
  expect(boundGuestInfo(taken)).toEqual(taken)
})

test('a guest cannot report more than 32 interfaces with 16 addresses each', () => {
  const hex = (index: number) => (index % 256).toString(16).padStart(2, '0')
  // Ten million texts of their own would take seconds.
  const networks = Array.from({ length: 256 }, (_, network) =>
    Array.from({ length: 1000 }, (__, host) => `10.${network}.${host >> 8}.${host % 256}`),
  )
  const interfaces = Array.from({ length: 10_000 }, (_, index) => ({
    mac: `52:54:00:00:${hex(index >> 8)}:${hex(index)}`,
    ips: networks[index % 256],
  }))
  const taken = boundGuestInfo({ interfaces }).interfaces ?? []
  expect(taken.length).toBe(32)
  expect(new Set(taken.map(({ ips }) => ips.length))).toEqual(new Set([16]))
  const one = interfaces.map(({ ips }) => ({ mac, ips }))
  expect(boundGuestInfo({ interfaces: one }).interfaces?.[0]?.ips.length).toBe(16)
})
