import { execFileSync, spawn } from 'node:child_process'
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { afterEach, beforeEach, expect, onTestFinished, test } from 'vitest'
import { eventually } from '../until.ts'
import { runPlugin } from './network-plugin.ts'

/** A network namespace like that of a pod, with an address of each family, and that of its node. Requires root. */
const name = `virtset-${process.pid}`
const [node, guest] = [`${name}-node`, `${name}-guest`]
const ipIn = (network: string, ...words: readonly string[]) =>
  execFileSync('ip', ['-n', network, ...words], { encoding: 'utf8' })
const ip = (...words: readonly string[]) => ipIn(name, ...words)

beforeEach(() => {
  for (const network of [name, node]) execFileSync('ip', ['netns', 'add', network])
  ip('link', 'add', 'eth0', 'type', 'veth', 'peer', 'name', 'node0', 'netns', node)
  ip('address', 'add', '10.0.0.5/24', 'dev', 'eth0')
  ip('address', 'add', 'fd00::5/64', 'dev', 'eth0', 'nodad')
  ipIn(node, 'address', 'add', 'fd00::1/64', 'dev', 'node0', 'nodad')
  ipIn(node, 'link', 'set', 'node0', 'up')
  for (const device of ['lo', 'eth0']) ip('link', 'set', device, 'up')
  ip('route', 'add', 'default', 'via', '10.0.0.1')
  ip('-6', 'route', 'add', 'default', 'via', 'fd00::1')
})
afterEach(() => {
  for (const network of [name, node]) execFileSync('ip', ['netns', 'delete', network])
})

const uid = '0f0e0d0c-0b0a-4908-8706-050403020100'
const request = {
  vm: { namespace: 'default', name: 'web', uid },
  pod: { uid, ips: ['10.0.0.5', 'fd00::5'] },
  interface: { dev: 'tap0', index: 0, mac: '52:54:00:00:00:01', queues: 1 },
}

/** What the plugin prints: its result, or its error. */
const plugin = (command: 'ADD' | 'CHECK' | 'DEL') => runPlugin('routed', command, name, request)

const added = JSON.stringify({
  ips: ['10.0.0.5', 'fd00::5'],
  dhcp: { ip: '10.0.0.5', prefix: 24, gateway: '10.0.0.1', mtu: 1500 },
  dhcp6: { ip: 'fd00::5', mtu: 1500 },
})

test('CHECK names what is missing, ADD repairs it, and DEL gives the addresses back to the pod', () => {
  const rules = [ip('rule', 'show'), ip('-6', 'rule', 'show')]
  expect(plugin('CHECK')).toContain('tap0 is not up')
  expect([plugin('ADD'), plugin('CHECK')]).toEqual([added, '{}'])
  for (const [damage, message] of [
    [['rule', 'delete', 'pref', '40'], 'routing rule 40 is missing'],
    [['rule', 'delete', 'pref', '50'], 'routing rule 50 is missing'],
    [['rule', 'delete', 'pref', '100'], 'routing rule 100 is missing'],
    [['rule', 'add', 'pref', '0', 'from', 'all', 'lookup', 'local'], 'routing rule 0 is there again'],
    [['route', 'flush', 'table', '22100'], '10.0.0.5 has no route to tap0'],
    [['-6', 'rule', 'add', 'pref', '0', 'from', 'all', 'lookup', 'local'], 'IPv6 routing rule 0 is there again'],
    [['-6', 'route', 'flush', 'table', '22100'], 'fd00::5 has no route to tap0'],
    [['link', 'set', 'virtset-ra', 'down'], 'virtset-ra is not up'],
    [['link', 'set', 'tap0', 'down'], 'tap0 is not up'],
  ] as const) {
    ip(...damage)
    expect(plugin('CHECK')).toBe(message)
    expect([plugin('ADD'), plugin('CHECK')]).toEqual([added, '{}'])
  }
  expect(plugin('DEL')).toBe('{}')
  expect([ip('rule', 'show'), ip('-6', 'rule', 'show')]).toEqual(rules)
  expect(ip('link', 'show')).not.toMatch(/tap0|virtset-ra/)
})

const nodePath = process.execPath
const inNetwork = (network: string, ...command: readonly string[]) => [
  `--net=${join('/var/run/netns', network)}`,
  '--',
  ...command,
]

/** Runs a module there until the test ends, once it has printed `ready`. */
async function start(network: string, source: string, ...before: readonly string[]): Promise<void> {
  const command = inNetwork(network, ...before, nodePath, '--input-type=module', '--eval', source)
  const child = spawn('nsenter', command, { stdio: ['ignore', 'pipe', 'inherit'] })
  onTestFinished(() => void child.kill())
  for await (const chunk of child.stdout) if (String(chunk).includes('ready')) return
  throw new Error(`a process in ${network} has ended`)
}

/** What a module prints there. */
const evaluate = (network: string, source: string): string =>
  execFileSync('nsenter', inNetwork(network, nodePath, '--input-type=module', '--eval', source), {
    encoding: 'utf8',
  }).trim()

/** Servers there tell each client its address. */
const serve = (network: string, ...addresses: readonly string[]) =>
  start(
    network,
    `import { createServer } from 'node:net'
     for (const host of ${JSON.stringify(addresses)})
       await new Promise((ready) =>
         createServer((client) => client.end(client.remoteAddress)).listen({ host, port: 80 }, ready))
     console.log('ready')`,
  )

const connectFrom = (network: string, to: object) =>
  evaluate(
    network,
    `import { connect } from 'node:net'
     const socket = connect({ port: 80, ...${JSON.stringify(to)} })
     socket.setTimeout(5000, () => socket.destroy(new Error('no answer')))
     socket.on('data', (text) => console.log(String(text))).on('error', ({ message }) => console.log(message))`,
  )

test('what a neighbor sends to the address of the launcher on the tap does not reach the pod', async () => {
  ipIn(node, 'address', 'add', '10.0.0.1/24', 'dev', 'node0')
  ipIn(node, 'route', 'add', '169.254.86.84', 'via', '10.0.0.5')
  expect(plugin('ADD')).toBe(added)
  await serve(name, '0.0.0.0')
  expect(connectFrom(node, { host: '169.254.86.84' })).toBe('no answer')
  expect(connectFrom(name, { host: '169.254.86.84' })).toBe('169.254.86.84')
})

/** The launcher's servers, without its privileges. */
const startAddressServers = () => {
  const file = (path: string) => JSON.stringify(resolve(import.meta.dirname, '../..', path))
  const { dhcp6 } = JSON.parse(added)
  const taps = JSON.stringify([{ dev: 'tap0', mac: request.interface.mac, dhcp6: { ...dhcp6, mtu: 1400 } }])
  return start(
    name,
    `import { serveAddresses } from ${file('launcher/address-servers.ts')}
     import { systemClock } from ${file('runtime/clock.ts')}
     import { createLogger } from ${file('runtime/log.ts')}
     const ofPod = { dns: [], dns6: ['fd00:96::a'], search: ['cluster.local'] }
     const log = createLogger({ process: 'launcher' })
     await serveAddresses({ taps: ${taps}, ofPod, clock: systemClock, log })
     console.log('ready')`,
    'setpriv',
    '--reuid=107',
    '--regid=107',
    '--clear-groups',
    '--inh-caps=-all',
    '--bounding-set=-all',
  )
}

/** As a DHCPv6 client: the address that it is given, and how many of 300 further requests are answered. */
const dhcp6Client = `
  import { createSocket } from 'node:dgram'
  import { once } from 'node:events'
  import { setTimeout } from 'node:timers/promises'
  const socket = createSocket('udp6')
  socket.bind(546, '::')
  await once(socket, 'listening')
  const send = (hex) => new Promise((sent) => socket.send(Buffer.from(hex, 'hex'), 547, 'ff02::1:2%eth0', sent))
  const client = '0001000a00030001525400000001'
  const [server, association] = ['0002000a00030001020000005654', '0003000c000000010000000000000000']
  // The first packets have no source yet while the kernel looks for duplicates of the link-local address.
  const ask = async (hex, type) => {
    const answered = new Promise((found) => socket.on('message', (answer) => answer[0] === type && found(answer)))
    const again = setInterval(() => send(hex), 500)
    await send(hex)
    const answer = await answered
    clearInterval(again)
    socket.removeAllListeners('message')
    return answer
  }
  const offer = await ask('01abcdef' + client + association, 2)
  const reply = await ask('03abcdee' + client + server + association, 7)
  const at = reply.indexOf(Buffer.from('00050018', 'hex')) + 4
  let answers = 0
  socket.on('message', () => answers++)
  for (let count = 0; count < 300; count++) await send('01abcded' + client + association)
  await setTimeout(500)
  socket.close()
  console.log(JSON.stringify([offer[0], reply[0], reply.subarray(at, at + 16).toString('hex'), answers]))`

test('by IPv6, a guest is given its router and the address of the pod, and can use no other', async () => {
  execFileSync('ip', ['netns', 'add', guest])
  onTestFinished(() => void execFileSync('ip', ['netns', 'delete', guest]))
  // A network of Linux in the place of a guest.
  ip('link', 'add', 'tap0', 'type', 'veth', 'peer', 'name', 'eth0', 'netns', guest)
  ipIn(guest, 'link', 'set', 'eth0', 'address', request.interface.mac)
  expect(plugin('ADD')).toBe(added)
  evaluate(
    name,
    `import { writeFileSync } from 'node:fs'
    writeFileSync('/proc/sys/net/ipv4/ip_unprivileged_port_start', '0')`,
  )
  await startAddressServers()

  ipIn(guest, 'link', 'set', 'eth0', 'up')
  const router = await eventually('an advertisement arrives', () => {
    const found = ipIn(guest, '-6', 'route', 'show', 'default')
    return found === '' ? undefined : found
  })
  expect(router).toMatch(/^default via fe80::5654 dev eth0 proto ra .* mtu 1400 hoplimit 64/)
  const [offered, given, address, answers]: unknown[] = JSON.parse(evaluate(guest, dhcp6Client))
  expect([offered, given, address]).toEqual([2, 7, 'fd000000000000000000000000000005'])
  expect(answers).toBeLessThan(150)
  // Duplicate address detection does not find the pod.
  ipIn(guest, 'address', 'add', 'fd00::5/128', 'dev', 'eth0')
  await eventually('the address can be used', () => !ipIn(guest, 'address', 'show').includes('tentative') || undefined)
  expect(ipIn(guest, 'address', 'show')).not.toContain('dadfailed')

  await serve(node, 'fd00::1')
  await serve(guest, 'fd00::5')
  expect(connectFrom(guest, { host: 'fd00::1' })).toBe('fd00::5')
  expect(connectFrom(node, { host: 'fd00::5' })).toBe('fd00::1')
  // The pod's own connections from the same address, and the launcher's to its guest.
  expect(connectFrom(name, { host: 'fd00::1' })).toBe('fd00::5')
  expect(connectFrom(name, { host: 'fd00::5', localAddress: 'fe80::5654%tap0' })).toBe('fe80::5654%eth0')

  // In one direction: an answer would not find the guest anyway.
  ipIn(guest, 'address', 'add', 'fd00::66/128', 'dev', 'eth0', 'nodad')
  const directory = mkdtempSync(join(tmpdir(), 'routed-'))
  onTestFinished(() => rmSync(directory, { recursive: true }))
  const heard = join(directory, 'heard')
  await start(
    node,
    `import { createSocket } from 'node:dgram'
     import { appendFileSync } from 'node:fs'
     createSocket('udp6')
       .on('message', (text, { address }) => appendFileSync(${JSON.stringify(heard)}, address + ' '))
       .bind(9, 'fd00::1', () => console.log('ready'))`,
  )
  evaluate(
    guest,
    `import { createSocket } from 'node:dgram'
     for (const own of ['fd00::66', 'fd00::5'])
       await new Promise((sent) => {
         const socket = createSocket('udp6').bind(0, own, () =>
           socket.send('x', 9, 'fd00::1', () => socket.close(sent)))
       })`,
  )
  await eventually('an address is heard', () => existsSync(heard) && readFileSync(heard, 'utf8') !== '')
  expect(readFileSync(heard, 'utf8')).toBe('fd00::5 ')
})
