import { expect, test } from 'vitest'
import { addScript, resultOf } from './nat.ts'

const ipv4 = { ip: '10.0.0.5', prefix: 24, gateway: '10.0.0.1' }
const link = { name: 'eth0', mtu: 1450, ipv4, ipv6: { ip: 'fd00::5' } }
const tap = { dev: 'tap0', index: 0, mac: '52:54:00:00:00:01', queues: 1 }

test('others reach the guest at the IPv4 address of the pod, and it has a private one', () => {
  expect(resultOf(link)).toEqual({
    ips: ['10.0.0.5'],
    dhcp: { ip: '10.0.2.2', prefix: 30, gateway: '10.0.2.1', mtu: 1450 },
  })
})

test('a pod without IPv4 is refused', () => {
  const { ipv4: _, ...rest } = link
  expect(() => resultOf(rest)).toThrow('the pod has no IPv4 address, which the plugin nat translates; use routed')
})

test('a tap has several queues only if its interface has', () => {
  expect(addScript(tap, link)).not.toContain('multi_queue')
  expect(addScript({ ...tap, queues: 4 }, link)).toContain('user 107 group 107 vnet_hdr multi_queue')
})

test('no other pod reaches the DHCP server of the guest', () => {
  expect(addScript(tap, link)).toContain('    iifname != "tap*" udp dport 67 drop\n')
})
