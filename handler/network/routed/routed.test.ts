import { expect, test } from 'vitest'
import { addScript, findPodLink, offerOf } from './routed.ts'

const addresses = [
  { ifname: 'lo', mtu: 65_536, addr_info: [{ local: '127.0.0.1', prefixlen: 8 }] },
  {
    ifname: 'eth0',
    mtu: 1450,
    addr_info: [
      { local: '10.0.0.9', prefixlen: 24 },
      { local: '10.0.0.5', prefixlen: 24 },
    ],
  },
]
const routes = [{ dst: 'default', gateway: '10.0.0.1', dev: 'eth0' }]

test('the interface of the pod is the one that has its address', () => {
  const link = findPodLink(['fd00::5', '10.0.0.5'], addresses, routes)
  expect(link).toEqual({ name: 'eth0', ip: '10.0.0.5', prefix: 24, mtu: 1450, gateway: '10.0.0.1' })
  expect(offerOf(link)).toEqual({ ip: '10.0.0.5', prefix: 24, mtu: 1450, gateway: '10.0.0.1' })
})

test('a pod without a gateway offers none', () => {
  const link = findPodLink(['10.0.0.5'], addresses, [])
  expect(link).toEqual({ name: 'eth0', ip: '10.0.0.5', prefix: 24, mtu: 1450 })
  expect(offerOf(link)).toEqual({ ip: '10.0.0.5', prefix: 24, mtu: 1450 })
})

test.each<[string, readonly string[], unknown, unknown, string]>([
  ['has only IPv6', ['fd00::5'], addresses, routes, 'does not support IPv6 yet'],
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
  expect(findPodLink(['10.0.0.5'], addresses, odd)).not.toHaveProperty('gateway')
})

test('a tap has several queues only if its interface has', () => {
  const link = findPodLink(['10.0.0.5'], addresses, routes)
  const tap = { dev: 'tap0', index: 0, mac: '52:54:00:00:00:01', queues: 1 }
  expect(addScript(tap, link)).not.toContain('multi_queue')
  expect(addScript({ ...tap, queues: 4 }, link)).toContain('user 107 group 107 vnet_hdr multi_queue')
})

test('no other pod reaches the DHCP server of the guest', () => {
  const link = findPodLink(['10.0.0.5'], addresses, routes)
  const script = addScript({ dev: 'tap0', index: 0, mac: '52:54:00:00:00:01', queues: 1 }, link)
  expect(script).toContain('hook input priority filter\n    iifname != "tap0" udp dport 67 drop\n')
})
