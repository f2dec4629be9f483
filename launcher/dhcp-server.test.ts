import { createSocket } from 'node:dgram'
import { once } from 'node:events'
import { expect, onTestFinished, test } from 'vitest'
import { createLogger } from '../runtime/log.ts'
import { fakeClock } from '../test/fake-clock.ts'
import { startDhcpServer } from './dhcp-server.ts'

/** To discover a server. */
function discover(): Buffer {
  const bytes = Buffer.alloc(244)
  bytes.set([1, 1, 6, 0])
  bytes.set(Buffer.from('525400000001', 'hex'), 28)
  bytes.writeUInt32BE(0x63825363, 236)
  bytes.set([53, 1, 1, 255], 240)
  return bytes
}

async function clientSocket() {
  const socket = createSocket('udp4')
  socket.bind(0, '127.0.0.1')
  await once(socket, 'listening')
  onTestFinished(() => void socket.close())
  return socket
}

test('a flood is dropped, and the server answers again afterwards', async () => {
  const client = await clientSocket()
  const clock = fakeClock()
  const server = await startDhcpServer({
    taps: [{ mac: '52:54:00:00:00:01', dhcp: { ip: '10.0.0.5', prefix: 24 } }],
    clock,
    log: createLogger({ process: 'launcher', level: 'silent' }),
    ports: { server: 0, client: client.address().port },
    destination: '127.0.0.1',
  })
  onTestFinished(() => server.close())
  const { port } = server
  let answers = 0
  client.on('message', (packet: Buffer) => {
    if ([...packet.subarray(16, 20)].join('.') === '10.0.0.5') answers++
  })
  const send = () => new Promise((resolve) => client.send(discover(), port, '127.0.0.1', resolve))
  // The kernel drops what a socket's buffer has no room for, so each waits for the one before.
  for (let count = 1; count <= 50; count++) {
    const answered = once(client, 'message')
    await send()
    await answered
  }
  expect(answers).toBe(50)
  for (let count = 0; count < 20; count++) await send()
  await clock.advance(100)
  const answered = once(client, 'message')
  // One of these finds room: those before are dropped whether they have arrived or not.
  await send()
  await answered
  expect(answers).toBe(51)
})

test('the address from which a guest is answered is that of its tap', async () => {
  const client = await clientSocket()
  const tap = (last: number, server?: string) => ({
    mac: `52:54:00:00:00:0${last}`,
    dhcp: { ip: `10.0.0.${last}`, prefix: 24, ...(server === undefined ? {} : { server }) },
  })
  const server = await startDhcpServer({
    taps: [tap(2, '127.0.0.2'), tap(1, '127.0.0.3')],
    clock: fakeClock(),
    log: createLogger({ process: 'launcher', level: 'silent' }),
    ports: { server: 0, client: client.address().port },
    destination: '127.0.0.1',
  })
  onTestFinished(() => server.close())
  const answered = once(client, 'message')
  client.send(discover(), server.port, '127.0.0.1')
  const [packet, { address }] = await answered
  expect([[...packet.subarray(16, 20)].join('.'), address]).toEqual(['10.0.0.1', '127.0.0.3'])
})
