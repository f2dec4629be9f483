import { execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { runPlugin } from './network-plugin.ts'

/**
 * Two network namespaces like those of pods, whose net1 are ports of one bridge, and two in the place of their guests.
 * A guest is connected by a veth called as the tap, which the plugin takes as it is: it only forwards frames. Requires
 * root.
 */
const name = (which: string) => `virtset-${process.pid}-${which}`
const all = ['switch', 'pod1', 'pod2', 'guest1', 'guest2']
const ip = (which: string, line: string) =>
  execFileSync('ip', ['-n', name(which), ...line.split(' ')], { encoding: 'utf8' })
const macOf = (index: number) => `52:54:00:00:00:0${index}`

beforeEach(() => {
  for (const one of all) execFileSync('ip', ['netns', 'add', name(one)])
  ip('switch', 'link add br0 up type bridge')
  for (const index of [1, 2]) {
    const [pod, guest] = [`pod${index}`, `guest${index}`]
    ip(pod, `link add net1 up mtu 1400 type veth peer name port${index} netns ${name('switch')}`)
    ip('switch', `link set port${index} up mtu 1400 master br0`)
    ip(pod, `link add tap1 type veth peer name eth0 address ${macOf(index)} netns ${name(guest)}`)
    ip(guest, 'link set eth0 up mtu 1400')
    ip(guest, `address add 198.18.0.${index}/24 dev eth0`)
  }
})
afterEach(() => {
  for (const one of all) execFileSync('ip', ['netns', 'delete', name(one)])
})

const uid = '0f0e0d0c-0b0a-4908-8706-050403020100'

/** What the plugin prints: its result, or its error. */
const plugin = (command: 'ADD' | 'CHECK' | 'DEL', index: number, podInterface = 'net1') =>
  runPlugin('redirect', command, name(`pod${index}`), {
    vm: { namespace: 'default', name: 'web', uid },
    pod: { uid, ips: [] },
    interface: { dev: 'tap1', index: 0, mac: macOf(index), queues: 1, podInterface },
  })

/** A program in a network namespace. */
const program = (which: string, source: string) =>
  spawn('ip', ['netns', 'exec', name(which), process.execPath, '-e', source], { stdio: ['ignore', 'pipe', 'inherit'] })

/** Of the guest 1 to the guest 2, whose address it looks for by broadcast. */
async function connects(timeoutMs: number): Promise<boolean> {
  const connect = `const s = require('net').connect(80, '198.18.0.2')
    s.setTimeout(${timeoutMs}, () => process.exit(1)); s.on('error', () => process.exit(1)); s.on('data', () => process.exit(0))`
  const [status] = await once(program('guest1', connect), 'exit')
  return status === 0
}

test('guests are hosts of the network, each with its own MAC address, and the pods are not', async () => {
  // As of IPAM: the pod would use them.
  ip('pod1', 'address add 198.18.0.1/24 dev net1')
  ip('pod1', 'route add 198.19.0.0/16 via 198.18.0.9')
  const withAddress = '{"ips":["198.18.0.1"]}'
  expect([1, 2, 1].map((index) => plugin('ADD', index))).toEqual([withAddress, '{}', withAddress])
  expect(ip('pod1', 'address show dev net1')).toMatch(/link\/ether 52:54:00:00:00:01 (?!.*inet)/s)
  expect(ip('pod1', 'route show')).toBe('')
  expect(ip('pod1', 'link show dev tap1')).toContain('mtu 1400')

  const server = program(
    'guest2',
    `require('net').createServer((s) => s.end('hello')).listen(80, () => console.log(1))`,
  )
  try {
    await once(server.stdout, 'data')
    expect(await connects(60_000)).toBe(true)
    ip('guest1', 'link set eth0 address 52:54:00:00:00:09')
    expect(await connects(3000)).toBe(false)
  } finally {
    server.kill()
  }
})

test('CHECK names what is missing, ADD repairs it, and DEL removes it', () => {
  expect(plugin('ADD', 1, 'net2')).toContain('the pod has no interface net2')
  ip('pod1', 'link del tap1')
  expect(plugin('CHECK', 1)).toContain('Device "tap1" does not exist')
  for (const damage of ['link set tap1 down', 'link set net1 down', 'link del tap1']) {
    expect([plugin('ADD', 1), plugin('CHECK', 1)]).toEqual(['{}', '{}'])
    ip('pod1', damage)
    expect(plugin('CHECK', 1)).toMatch(/is not up|does not exist/)
  }
  expect([plugin('ADD', 1), plugin('DEL', 1), plugin('DEL', 1)]).toEqual(['{}', '{}', '{}'])
  expect(ip('pod1', 'link show')).not.toContain('tap1')
})
