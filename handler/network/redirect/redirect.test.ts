import { expect, test } from 'vitest'
import { addScript, findNetwork } from './redirect.ts'

const tap = { dev: 'tap1', index: 1, mac: '52:54:00:00:00:01', queues: 1, podInterface: 'net1' }
const network = { name: 'net1', mac: '52:54:00:00:00:01', mtu: 1450, ips: [] }
const links = [
  { ifname: 'eth0', mtu: 1500, address: '0a:00:00:00:00:01' },
  { ifname: 'net1', mtu: 1450, address: tap.mac },
]

test('the interface of the pod in the network of the tap is found', () => {
  expect(findNetwork(tap, links, [])).toEqual(network)
})

const global = (local: unknown) => ({ local, scope: 'global' })

test.each<[string, object, readonly string[]]>([
  [
    'from IPAM',
    { addr_info: [global('198.18.0.5'), global('fd00::5'), { local: 'fe80::1', scope: 'link' }] },
    ['198.18.0.5', 'fd00::5'],
  ],
  [
    'from its alias, once they are removed',
    { addr_info: [], ifalias: 'virtset 198.18.0.5 fd00::5' },
    ['198.18.0.5', 'fd00::5'],
  ],
  ['from IPAM again', { addr_info: [global('198.18.0.6')], ifalias: 'virtset 198.18.0.5' }, ['198.18.0.6']],
  ['not from an alias of another program', { ifalias: 'lab 198.18.0.5' }, []],
  ['without what is none', { addr_info: [global("1'; reboot"), global(7), 'x'] }, []],
  [
    'at most four',
    { addr_info: [1, 2, 3, 4, 5].map((last) => global(`198.18.0.${last}`)) },
    [1, 2, 3, 4].map((last) => `198.18.0.${last}`),
  ],
])('its addresses are known %s', (_, more, ips) => {
  const described = [{ ...links[1], ...more }]
  const found = findNetwork(tap, described, described)
  expect(found.ips).toEqual(ips)
  const alias =
    ips.length === 0 ? undefined : `ip link set dev net1 alias 'virtset ${ips.join(' ')}'\nip address flush dev net1\n`
  expect(addScript(tap, found).includes(alias ?? 'alias')).toBe(alias !== undefined)
})

test.each<[string, object, unknown, string]>([
  ['is absent', tap, [{ ifname: 'net2' }], 'the pod has no interface net1; Multus'],
  ['is not described', tap, { a: 1 }, 'the pod has no interface net1; Multus'],
  ['has no MAC address', tap, [{ ifname: 'net1', mtu: 1500 }], 'net1 is not an Ethernet interface'],
  ['is not stated', { ...tap, podInterface: undefined }, links, 'spec.taps states no network for tap1'],
])('an interface that %s is refused', (_, one, given, message) => {
  expect(() => findNetwork({ ...tap, ...one }, given, given)).toThrow(message)
})

test('the tap has the queues of the interface, and its network the MAC address of the guest', () => {
  expect(addScript(tap, network)).not.toMatch(/multi_queue|net1 address/)
  const script = addScript({ ...tap, queues: 4 }, { ...network, mac: '0a:00:00:00:00:02' })
  expect(script).toContain('user 107 group 107 vnet_hdr multi_queue\n')
  expect(script).toContain('ip link set dev net1 address 52:54:00:00:00:01\n')
})
