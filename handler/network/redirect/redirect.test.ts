import { expect, test } from 'vitest'
import { addScript, findNetwork } from './redirect.ts'

const tap = { dev: 'tap1', index: 1, mac: '52:54:00:00:00:01', queues: 1, podInterface: 'net1' }
const network = { name: 'net1', mac: '52:54:00:00:00:01', mtu: 1450 }
const links = [
  { ifname: 'eth0', mtu: 1500, address: '0a:00:00:00:00:01' },
  { ifname: 'net1', mtu: 1450, address: tap.mac },
]

test('the interface of the pod in the network of the tap is found', () => {
  expect(findNetwork(tap, links)).toEqual(network)
})

test.each<[string, object, unknown, string]>([
  ['is absent', tap, [{ ifname: 'net2' }], 'the pod has no interface net1; Multus'],
  ['is not described', tap, { a: 1 }, 'the pod has no interface net1; Multus'],
  ['has no MAC address', tap, [{ ifname: 'net1', mtu: 1500 }], 'net1 is not an Ethernet interface'],
  ['is not stated', { ...tap, podInterface: undefined }, links, 'spec.taps states no network for tap1'],
])('an interface that %s is refused', (_, one, given, message) => {
  expect(() => findNetwork({ ...tap, ...one }, given)).toThrow(message)
})

test('the tap has the queues of the interface, and its network the MAC address of the guest', () => {
  expect(addScript(tap, network)).not.toMatch(/multi_queue|net1 address/)
  const script = addScript({ ...tap, queues: 4 }, { ...network, mac: '0a:00:00:00:00:02' })
  expect(script).toContain('user 107 group 107 vnet_hdr multi_queue\n')
  expect(script).toContain('ip link set dev net1 address 52:54:00:00:00:01\n')
})
