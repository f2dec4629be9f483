import { expect, test } from 'vitest'
import { addScript, findNetwork, resultOf } from './redirect.ts'

const tap = { dev: 'tap1', index: 1, mac: '52:54:00:00:00:01', queues: 1, podInterface: 'net1' }
const network = { name: 'net1', mac: '52:54:00:00:00:01', mtu: 1450, addresses: [] }
const links = [
  { ifname: 'eth0', mtu: 1500, address: '0a:00:00:00:00:01' },
  { ifname: 'net1', mtu: 1450, address: tap.mac },
]

test('the interface of the pod in the network of the tap is found', () => {
  expect(findNetwork(tap, links, [])).toEqual(network)
})

const global = (local: unknown, prefixlen: unknown = 24) => ({ local, prefixlen, scope: 'global' })
const local = { local: 'fe80::1', prefixlen: 64, scope: 'link' }
const both = ['198.18.0.5/24', 'fd00::5/64']

test.each<[string, object, readonly string[]]>([
  ['from IPAM', { addr_info: [global('198.18.0.5'), global('fd00::5', 64), local] }, both],
  ['from its alias, once they are removed', { addr_info: [], ifalias: `virtset ${both.join(' ')}` }, both],
  ['from IPAM again', { addr_info: [global('198.18.0.6')], ifalias: 'virtset 198.18.0.5/24' }, ['198.18.0.6/24']],
  ['not from an alias of another program', { ifalias: 'lab 198.18.0.5/24' }, []],
  ['without what is none', { addr_info: [global("1'; reboot"), global(7), global('10.0.0.1', "1'"), 'x'] }, []],
  ['without an alias that is none', { ifalias: "virtset 10.0.0.1 10.0.0.1/33 10.0.0.1/1/1 '" }, []],
  [
    'at most four',
    { addr_info: [1, 2, 3, 4, 5].map((last) => global(`198.18.0.${last}`)) },
    [1, 2, 3, 4].map((last) => `198.18.0.${last}/24`),
  ],
])('its addresses are known %s', (_, more, addresses) => {
  const described = [{ ...links[1], ...more }]
  const found = findNetwork(tap, described, described)
  expect(found.addresses).toEqual(addresses)
  const alias = `ip link set dev net1 alias 'virtset ${addresses.join(' ')}'\nip address flush dev net1\n`
  expect(addScript(tap, found).includes(alias)).toBe(addresses.length > 0)
})

test('the guest is offered the first IPv4 address, and nothing that leads to other networks', () => {
  const dhcp = { ip: '198.18.0.5', prefix: 24, mtu: 1450, dns: [], search: [], server: '169.254.87.2' }
  expect(resultOf(tap, { ...network, addresses: both })).toEqual({ ips: ['198.18.0.5', 'fd00::5'], dhcp })
  expect(resultOf({ ...tap, index: 4096 }, { ...network, addresses: both }).dhcp?.server).toBe('169.254.103.1')
  expect(resultOf(tap, { ...network, addresses: ['fd00::5/64'] })).toEqual({ ips: ['fd00::5'] })
  expect(resultOf(tap, network)).toEqual({ ips: [] })
})

test('only a guest with an address of IPAM reaches the launcher', () => {
  expect(addScript(tap, network)).not.toMatch(/dport 67 accept|169\.254/)
  expect(addScript(tap, { ...network, addresses: both })).toMatch(/dport 67 accept\n +ether saddr .* fwd to "net1"/)
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

test('a guest takes no part in the protocols of switches', () => {
  const script = addScript(tap, network)
  const before = script.slice(0, script.indexOf('fwd to "net1"'))
  expect(before.match(/^ *(ether|meta) .* drop$/gm)?.map((line) => line.trim())).toEqual([
    'ether daddr & ff:ff:ff:ff:ff:f0 == 01:80:c2:00:00:00 drop',
    'ether daddr & ff:ff:ff:ff:ff:f0 == 01:80:c2:00:00:20 drop',
    'ether daddr { 01:00:0c:cc:cc:cc, 01:00:0c:cc:cc:cd } drop',
    'ether type { 0x8808, 0x8809, 0x88cc } drop',
    'meta protocol { 0x8808, 0x8809, 0x88cc } drop',
  ])
})
