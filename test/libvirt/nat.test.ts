import { execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { afterEach, beforeEach, expect, onTestFinished, test } from 'vitest'
import { runPlugin } from './network-plugin.ts'

/**
 * A network namespace like that of a pod, that of its node, and one in the place of its guest, which is connected by a
 * veth called as the tap: the plugin takes it as it is. Requires root.
 */
const name = (which: string) => `virtset-${process.pid}-${which}`
const all = ['node', 'pod', 'guest']
const ip = (which: string, line: string) =>
  execFileSync('ip', ['-n', name(which), ...line.split(' ')], { encoding: 'utf8' })

const [nodeIP, podIP, guestIP] = ['10.0.0.1', '10.0.0.5', '10.0.2.2']
const mac = '52:54:00:00:00:01'

beforeEach(() => {
  for (const one of all) execFileSync('ip', ['netns', 'add', name(one)])
  ip('pod', `link add eth0 type veth peer name pod0 netns ${name('node')}`)
  ip('pod', `link add tap0 type veth peer name eth0 address ${mac} netns ${name('guest')}`)
  ip('node', `address add ${nodeIP}/24 dev pod0`)
  ip('pod', `address add ${podIP}/24 dev eth0`)
  for (const line of ['pod lo', 'pod eth0', 'node pod0', 'guest lo', 'guest eth0']) {
    const [which = '', device = ''] = line.split(' ')
    ip(which, `link set ${device} up`)
  }
  ip('pod', `route add default via ${nodeIP}`)
})
afterEach(() => {
  for (const one of all) execFileSync('ip', ['netns', 'delete', name(one)])
})

const uid = '0f0e0d0c-0b0a-4908-8706-050403020100'

/** What the plugin prints: its result, or its error. */
const plugin = (command: 'ADD' | 'CHECK' | 'DEL', ips: readonly string[] = [podIP]) =>
  runPlugin('nat', command, name('pod'), {
    vm: { namespace: 'default', name: 'web', uid },
    pod: { uid, ips },
    interface: { dev: 'tap0', index: 0, mac, queues: 1 },
  })
const offer = { ip: guestIP, prefix: 30, gateway: '10.0.2.1', mtu: 1500 }
const added = JSON.stringify({ ips: [podIP], dhcp: offer })

const program = (which: string, source: string) =>
  spawn('ip', ['netns', 'exec', name(which), process.execPath, '-e', source], { stdio: ['ignore', 'pipe', 'inherit'] })

/** Tells each client its address, as the server sees it. */
async function serve(which: string, address: string, port: number): Promise<void> {
  const child = program(
    which,
    `require('net').createServer((client) => client.end(client.remoteAddress))
       .listen(${port}, '${address}', () => console.log('ready'))
     require('dgram').createSocket('udp4')
       .on('message', function (_, from) { this.send(from.address, from.port, from.address) }).bind(${port}, '${address}')`,
  )
  onTestFinished(() => void child.kill())
  await once(child.stdout, 'data')
}

const printed = (which: string, source: string): string =>
  execFileSync('ip', ['netns', 'exec', name(which), process.execPath, '-e', source], { encoding: 'utf8' }).trim()

/** The address that a server sees, or why it is not reached. */
const connect = (which: string, host: string, port: number, localAddress?: string, timeoutMs = 20_000): string =>
  printed(
    which,
    `const socket = require('net').connect(${JSON.stringify({ host, port, localAddress })})
     socket.setTimeout(${timeoutMs}, () => socket.destroy(new Error('no answer')))
     socket.on('data', (text) => console.log(String(text))).on('error', ({ message }) => console.log(message))`,
  )

const sendUdp = (which: string, host: string, port: number): string =>
  printed(
    which,
    `const socket = require('dgram').createSocket('udp4')
     socket.on('message', (text) => { console.log(String(text)); socket.close() }).send('x', ${port}, '${host}')
     setTimeout(() => process.exit(), 20_000).unref()`,
  )

const nft = (which: string, args: readonly string[], input = '') =>
  execFileSync('ip', ['netns', 'exec', name(which), 'nft', ...args], { input, encoding: 'utf8' })
const rules = (which: string, chain: string) => nft(which, ['-f', '-'], `table ip test {\n${chain}\n}\n`)
const countPackets = (which: string, match: string) =>
  rules(which, `chain counted { type filter hook prerouting priority raw; ${match} counter; }`)
const counted = (which: string) => Number(/packets (\d+)/.exec(nft(which, ['list', 'table', 'ip', 'test']))?.[1])

const configureGuest = () => {
  ip('guest', `address add ${guestIP}/30 dev eth0`)
  ip('guest', 'route add default via 10.0.2.1')
}

test('a guest is reached at the address of its pod, and reaches others from it, beside the pod itself', async () => {
  expect([plugin('ADD'), plugin('ADD'), plugin('CHECK')]).toEqual([added, added, '{}'])
  configureGuest()
  await serve('guest', guestIP, 80)
  await serve('node', nodeIP, 81)
  // Any port and protocol, and the guest sees its client.
  expect(connect('node', podIP, 80)).toBe(nodeIP)
  expect(sendUdp('node', podIP, 80)).toBe(nodeIP)
  // Others see the pod.
  expect(connect('guest', nodeIP, 81)).toBe(podIP)
  expect(sendUdp('guest', nodeIP, 81)).toBe(podIP)
  // The pod's own connections, such as QEMU's to a disk.
  expect(connect('pod', nodeIP, 81)).toBe(podIP)
  // The guest at the address of its pod, and the launcher, as for `kubectl vm port-forward`.
  expect(connect('guest', podIP, 80)).toBe('10.0.2.1')
  expect(connect('pod', podIP, 80, '169.254.86.84')).toBe('169.254.86.84')
})

test('a guest uses only its own addresses, and reaches nothing in its pod', async () => {
  expect(plugin('ADD')).toBe(added)
  configureGuest()
  await serve('pod', '0.0.0.0', 82)
  await serve('node', nodeIP, 81)
  for (const address of ['10.0.2.1', '169.254.86.84'])
    expect(connect('guest', address, 82, undefined, 2000)).toBe('no answer')
  ip('guest', 'address add 10.0.2.66/32 dev eth0')
  expect(connect('guest', nodeIP, 81, '10.0.2.66', 2000)).toBe('no answer')
  expect(connect('guest', nodeIP, 81, guestIP)).toBe(podIP)
  ip('guest', 'link set eth0 address 52:54:00:00:00:09')
  expect(connect('guest', nodeIP, 81, guestIP, 2000)).not.toBe(podIP)
})

test('what a neighbor sends to the private addresses reaches neither the guest nor the pod', async () => {
  expect(plugin('ADD')).toBe(added)
  configureGuest()
  await serve('guest', guestIP, 80)
  await serve('pod', '0.0.0.0', 82)
  for (const address of ['10.0.2.0/30', '169.254.86.84']) ip('node', `route add ${address} via ${podIP}`)
  expect(connect('node', guestIP, 80, undefined, 2000)).toBe('no answer')
  for (const address of ['10.0.2.1', '169.254.86.84'])
    expect(connect('node', address, 82, undefined, 2000)).toBe('no answer')
  expect(connect('node', podIP, 80)).toBe(nodeIP)
})

test('what belongs to no connection, or to another network of the pod, does not leave with the private address', async () => {
  expect(plugin('ADD')).toBe(added)
  configureGuest()
  ip('pod', `link add net1 type veth peer name pod1 netns ${name('node')}`)
  ip('node', 'address add 10.1.0.1/24 dev pod1')
  ip('pod', 'address add 10.1.0.5/24 dev net1')
  for (const line of ['pod net1', 'node pod1']) {
    const [which = '', device = ''] = line.split(' ')
    ip(which, `link set ${device} up`)
  }
  countPackets('pod', `iifname "tap0" ip saddr ${guestIP} tcp flags rst`)
  countPackets('node', `ip saddr ${guestIP}`)
  connect('guest', '10.1.0.1', 81, undefined, 1000)
  rules('guest', 'chain x { type filter hook output priority filter; tcp dport 81 tcp flags set rst; }')
  connect('guest', nodeIP, 81, undefined, 1000)
  expect(counted('pod')).toBeGreaterThan(0)
  expect(counted('node')).toBe(0)
})

test('CHECK names what is missing, ADD repairs it, and DEL gives the address back to the pod', async () => {
  expect(plugin('ADD', ['fd00::5'])).toContain('no interface of the pod has its address')
  ip('pod', 'link del tap0')
  expect(plugin('CHECK')).toContain('tap0 is not up')
  for (const [damage, message] of [
    ['link set tap0 down', 'tap0 is not up'],
    ['address flush dev tap0', 'tap0 has no address 10.0.2.1'],
    ['link del tap0', 'tap0 is not up'],
  ] as const) {
    expect([plugin('ADD'), plugin('CHECK')]).toEqual([added, '{}'])
    ip('pod', damage)
    expect(plugin('CHECK')).toContain(message)
  }
  expect([plugin('ADD'), plugin('DEL'), plugin('DEL')]).toEqual([added, '{}', '{}'])
  expect(ip('pod', 'link show')).not.toContain('tap0')
  await serve('pod', '0.0.0.0', 82)
  expect(connect('node', podIP, 82)).toBe(nodeIP)
})
