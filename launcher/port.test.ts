import { createServer, type AddressInfo, type Server, type Socket } from 'node:net'
import { networkInterfaces, type NetworkInterfaceInfo } from 'node:os'
import { duplexPair } from 'node:stream'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { systemClock } from '../runtime/clock.ts'
import { until } from '../test/until.ts'
import { createPorts, podAddresses } from './port.ts'

const address = (text: string, internal = false): NetworkInterfaceInfo => {
  const common = { address: text, netmask: '', mac: '', internal, cidr: null }
  return text.includes(':') ? { ...common, family: 'IPv6', scopeid: 0 } : { ...common, family: 'IPv4' }
}

let server: Server
let connections: Socket[]
let port: number
beforeEach(async () => {
  connections = []
  server = createServer({ allowHalfOpen: true }, (socket) => {
    connections.push(socket.on('error', () => {}))
    socket.pipe(socket)
  })
  await new Promise<void>((resolve) => void server.listen(0, '127.0.0.2', resolve))
  port = (server.address() as AddressInfo).port
})
afterEach(() => {
  for (const connection of connections) connection.destroy()
  server.close()
})

// The whole of 127/8 is local, so this address stands for that of a pod.
const open = createPorts({ interfaces: () => ({ eth0: [address('127.0.0.2')] }), clock: systemClock })

test('a connection reaches the pod’s own address, and the end of one side reaches the other', async () => {
  const [ours, theirs] = duplexPair()
  const session = await open(port)
  session.start(theirs)
  let [heard, hasEnded] = ['', false]
  ours.on('data', (chunk: Buffer) => (heard += chunk.toString())).once('end', () => (hasEnded = true))
  ours.write('hello')
  await until(() => heard === 'hello')
  connections[0]?.end()
  await until(() => hasEnded)
  expect([heard, hasEnded]).toEqual(['hello', true])
})

test('a port without a listener is refused, and holds no place', async () => {
  server.close()
  for (let count = 0; count < 33; count++) {
    await expect(open(port)).rejects.toMatchObject({
      reason: 'NotReady',
      message: expect.stringContaining(
        `port ${port} of the VM does not accept connections (ECONNREFUSED at 127.0.0.2)`,
      ),
    })
  }
})

test('a VM has a limited number of connections', async () => {
  const sessions = []
  for (let count = 0; count < 32; count++) sessions.push(await open(port))
  await expect(open(port)).rejects.toMatchObject({ reason: 'TooManySessions' })
  for (const session of sessions) session.cancel()
  await until(() =>
    open(port).then(
      (session) => (session.cancel(), true),
      () => false,
    ),
  )
})

test('a guest behind a tap is reached from the address on the tap, by either family', async () => {
  for (const [own, tap] of [
    ['127.0.0.2', '169.254.86.84'],
    ['::1', 'fe80::5654'],
  ] as const) {
    const interfaces = () => ({ eth0: [address(own)], tap0: [address(tap)] })
    // No device has it here, so the kernel refuses to connect from it.
    const message = expect.stringMatching(/EADDRNOTAVAIL|EINVAL/)
    await expect(createPorts({ interfaces, clock: systemClock })(port)).rejects.toMatchObject({ message })
  }
})

test('a pod without an address has no ports', async () => {
  const none = createPorts({ interfaces: () => ({ lo: [address('127.0.0.1', true)] }), clock: systemClock })
  await expect(none(22)).rejects.toMatchObject({ reason: 'NotReady', message: expect.stringContaining('no address') })
})

test('the address of the cluster’s network is first; loopback and link-local addresses are none', () => {
  const found = podAddresses({
    lo: [address('127.0.0.1', true), address('::1', true)],
    net1: [address('192.168.0.7')],
    eth0: [address('fe80::1'), address('fd00::7'), address('169.254.1.1'), address('10.244.0.7')],
  })
  expect(found).toEqual(['10.244.0.7', '192.168.0.7', 'fd00::7'])
  expect(podAddresses(networkInterfaces())).not.toContain('127.0.0.1')
})
