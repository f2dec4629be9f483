import { expect, test } from 'vitest'
import { findPodLink } from '../pod-link.ts'
import { addScript, delScript, resultOf } from './routed.ts'

const addresses = [
  { ifname: 'lo', mtu: 65_536, addr_info: [{ local: '127.0.0.1', prefixlen: 8 }] },
  {
    ifname: 'eth0',
    mtu: 1450,
    addr_info: [
      { local: '10.0.0.9', prefixlen: 24 },
      { local: '10.0.0.5', prefixlen: 24 },
      { local: 'fd00::5', prefixlen: 64 },
      { local: 'fe80::1', prefixlen: 64 },
    ],
  },
  { ifname: 'net1', mtu: 9000, addr_info: [{ local: 'fd01::5', prefixlen: 64 }] },
]
const routes = [{ dst: 'default', gateway: '10.0.0.1', dev: 'eth0' }]
const ipv4 = { ip: '10.0.0.5', prefix: 24, gateway: '10.0.0.1' }
const tap = { dev: 'tap0', index: 0, mac: '52:54:00:00:00:01', queues: 1 }

test('the interface of the pod is the one that has its addresses', () => {
  const link = findPodLink(['fd00::5', '10.0.0.5'], addresses, routes)
  expect(link).toEqual({ name: 'eth0', mtu: 1450, ipv4, ipv6: { ip: 'fd00::5' } })
  expect(resultOf(link)).toEqual({
    ips: ['10.0.0.5', 'fd00::5'],
    dhcp: { ...ipv4, mtu: 1450 },
    dhcp6: { ip: 'fd00::5', mtu: 1450 },
  })
})

test('an address of another interface is not that of the guest', () => {
  const link = findPodLink(['10.0.0.5', 'fd01::5'], addresses, routes)
  expect(resultOf(link)).toEqual({ ips: ['10.0.0.5'], dhcp: { ...ipv4, mtu: 1450 } })
})

test('a pod without IPv4 has rules for IPv6 alone', () => {
  const link = findPodLink(['fd00::5'], addresses, routes)
  expect(resultOf(link)).toEqual({ ips: ['fd00::5'], dhcp6: { ip: 'fd00::5', mtu: 1450 } })
  const script = addScript(tap, link)
  expect(script).not.toMatch(/proxy_arp|arp saddr|ip saddr|ip -4/)
  expect(script).toContain('ip -6 route replace fd00::5 dev tap0 table 22100')
})

test('a pod without IPv6 has no rules for it', () => {
  const script = addScript(tap, findPodLink(['10.0.0.5'], addresses, routes))
  expect(script).not.toMatch(/ip6|ip -6|icmpv6|vxlan/)
})

test('a pod without a gateway offers none', () => {
  const link = findPodLink(['10.0.0.5'], addresses, [])
  expect(link).toEqual({ name: 'eth0', mtu: 1450, ipv4: { ip: '10.0.0.5', prefix: 24 } })
  expect(resultOf(link)).toEqual({ ips: ['10.0.0.5'], dhcp: { ip: '10.0.0.5', prefix: 24, mtu: 1450 } })
})

test.each<[string, readonly string[], unknown, unknown, string]>([
  ['has no address', [], addresses, routes, 'no interface of the pod has its address'],
  ['has another address', ['10.0.0.6'], addresses, routes, 'no interface of the pod has its address 10.0.0.6'],
  ['describes nothing', ['10.0.0.5'], { a: 1 }, 7, 'no interface of the pod has its address 10.0.0.5'],
  [
    'names its interface as a command',
    ['10.0.0.5'],
    [{ ifname: 'e;reboot', mtu: 1500, addr_info: [{ local: '10.0.0.5', prefixlen: 24 }] }],
    routes,
    'has no valid name, MTU or prefix',
  ],
  ['has no MTU', ['10.0.0.5'], [{ ifname: 'eth0', addr_info: [{ local: '10.0.0.5', prefixlen: 24 }] }], routes, 'MTU'],
])('a pod that %s is refused', (_, ips, given, via, message) => {
  expect(() => findPodLink(ips, given, via)).toThrow(message)
})

test('a gateway that is no address is left out', () => {
  const odd = [{ dst: 'default', gateway: '$(reboot)', dev: 'eth0' }]
  expect(findPodLink(['10.0.0.5'], addresses, odd).ipv4).not.toHaveProperty('gateway')
})

test('a tap has several queues only if its interface has', () => {
  const link = findPodLink(['10.0.0.5'], addresses, routes)
  expect(addScript(tap, link)).not.toContain('multi_queue')
  expect(addScript({ ...tap, queues: 4 }, link)).toContain('user 107 group 107 vnet_hdr multi_queue')
})

test('no other pod reaches the DHCP servers of the guest', () => {
  const script = addScript(tap, findPodLink(['10.0.0.5', 'fd00::5'], addresses, routes))
  expect(script).toContain('    iifname != "lo" udp dport 22100 drop\n    iifname != "tap*" udp dport 67 drop\n')
  expect(script).toContain('hook input priority filter\n    iifname != "tap0" udp dport 547 drop\n')
})

test('what was added for both families is deleted, whichever the pod has now', () => {
  const script = delScript(tap)
  for (const part of ['ip -4 rule', 'ip -6 rule', 'table ip ', 'table ip6 ', 'table netdev ', 'virtset-ra', 'tap0'])
    expect(script).toContain(part)
})
