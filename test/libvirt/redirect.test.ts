import { execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { resolve } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { runPlugin } from './network-plugin.ts'

/**
 * Two network namespaces like those of pods, whose net1 are in one network, and two in the place of their guests.
 * A guest is connected by a veth called as the tap, which the plugin takes as it is: it only forwards frames. Requires
 * root.
 */
const name = (which: string) => `virtset-${process.pid}-${which}`
const all = ['switch', 'pod1', 'pod2', 'guest1', 'guest2']
const ip = (which: string, line: string) =>
  execFileSync('ip', ['-n', name(which), ...line.split(' ')], { encoding: 'utf8' })
const macOf = (index: number) => `52:54:00:00:00:0${index}`

/** The networks of CNI's plugins `bridge` and `macvlan`, which create an interface of a pod. */
const networks = {
  bridge(index: number) {
    if (index === 1) ip('switch', 'link add br0 up type bridge')
    ip(`pod${index}`, `link add net1 up mtu 1400 type veth peer name port${index} netns ${name('switch')}`)
    ip('switch', `link set port${index} up mtu 1400 master br0`)
  },
  macvlan(index: number) {
    if (index === 1) ip('switch', 'link add uplink up mtu 1400 type veth peer name world')
    ip('switch', 'link set world up')
    ip('switch', `link add net1 mtu 1400 link uplink netns ${name(`pod${index}`)} type macvlan mode bridge`)
    ip(`pod${index}`, 'link set net1 up')
  },
} as const

function connectPods(network: keyof typeof networks): void {
  for (const index of [1, 2]) {
    const [pod, guest] = [`pod${index}`, `guest${index}`]
    networks[network](index)
    ip(pod, `link add tap1 type veth peer name eth0 address ${macOf(index)} netns ${name(guest)}`)
    ip(guest, 'link set eth0 up mtu 1400')
    ip(guest, `address add 198.18.0.${index}/24 dev eth0`)
  }
}

beforeEach(() => {
  for (const one of all) execFileSync('ip', ['netns', 'add', name(one)])
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

test.each(['bridge', 'macvlan'] as const)(
  'guests are hosts of a %s, each with its own MAC address, and the pods are not',
  async (network) => {
    connectPods(network)
    // As of IPAM: the pod would use them.
    ip('pod1', 'address add 198.18.0.1/24 dev net1')
    ip('pod1', 'route add 198.19.0.0/16 via 198.18.0.9')
    const added = [1, 2, 1].map((index) => JSON.parse(plugin('ADD', index)))
    expect(added.map(({ ips }) => ips)).toEqual([['198.18.0.1'], [], ['198.18.0.1']])
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
  },
)

test('CHECK names what is missing, ADD repairs it, and DEL removes it', () => {
  connectPods('bridge')
  expect(plugin('ADD', 1, 'net2')).toContain('the pod has no interface net2')
  ip('pod1', 'link del tap1')
  expect(plugin('CHECK', 1)).toContain('Device "tap1" does not exist')
  for (const damage of ['link set tap1 down', 'link set net1 down', 'link del tap1']) {
    expect([plugin('ADD', 1), plugin('CHECK', 1)]).toEqual(['{"ips":[]}', '{}'])
    ip('pod1', damage)
    expect(plugin('CHECK', 1)).toMatch(/is not up|does not exist/)
  }
  expect([plugin('ADD', 1), plugin('DEL', 1), plugin('DEL', 1)]).toEqual(['{"ips":[]}', '{}', '{}'])
  expect(ip('pod1', 'link show')).not.toContain('tap1')
})

/** As a DHCP client: the address that it is offered, and from where. */
const discover = `
  const packet = Buffer.alloc(244)
  packet.set([1, 1, 6, 0])
  packet.set(Buffer.from('525400000001', 'hex'), 28)
  packet.writeUInt32BE(0x63825363, 236)
  packet.set([53, 1, 1, 255], 240)
  const socket = require('dgram').createSocket('udp4')
  socket.bind(68, () => {
    socket.setBroadcast(true)
    setInterval(() => socket.send(packet, 67, '255.255.255.255'), 500)
  })
  socket.on('message', (offer, { address }) => {
    console.log([...offer.subarray(16, 20)].join('.'), address)
    process.exit()
  })`

test('a guest is given the address of IPAM by the launcher, beside another tap of the pod', async () => {
  connectPods('bridge')
  ip('pod1', 'address add 198.18.0.1/24 dev net1')
  const { dhcp } = JSON.parse(plugin('ADD', 1))
  expect(dhcp).toEqual({ ip: '198.18.0.1', prefix: 24, dns: [], search: [], mtu: 1400, server: '169.254.87.1' })
  // As the plugin routed does: broadcasts of the pod leave by another tap.
  ip('pod1', 'link add tap0 up type bridge')
  ip('pod1', 'address add 169.254.86.84/32 dev tap0')
  ip('pod1', 'route replace 255.255.255.255/32 dev tap0 src 169.254.86.84')
  ip('guest1', 'address flush dev eth0')
  ip('guest1', 'route add 255.255.255.255/32 dev eth0')
  execFileSync('ip', [
    'netns',
    'exec',
    name('guest1'),
    'sysctl',
    '-qw',
    'net.ipv4.conf.all.rp_filter=0',
    'net.ipv4.conf.eth0.rp_filter=0',
  ])

  const file = (path: string) => JSON.stringify(resolve(import.meta.dirname, '../..', path))
  const launcher = program(
    'pod1',
    `(async () => {
       const { serveAddresses } = await import(${file('launcher/address-servers.ts')})
       const { systemClock: clock } = await import(${file('runtime/clock.ts')})
       const { createLogger } = await import(${file('runtime/log.ts')})
       const taps = [{ dev: 'tap1', mac: '${macOf(1)}', dhcp: ${JSON.stringify(dhcp)} }]
       const ofPod = { dns: ['10.0.0.10'], dns6: [], search: ['cluster.local'] }
       await serveAddresses({ taps, ofPod, clock, log: createLogger({ process: 'launcher' }) })
       console.log('ready')
     })()`,
  )
  const client = program('guest1', discover)
  try {
    await once(launcher.stdout, 'data')
    const [answer] = await once(client.stdout, 'data')
    expect(String(answer).trim()).toBe('198.18.0.1 169.254.87.1')
  } finally {
    launcher.kill()
    client.kill()
  }
})
