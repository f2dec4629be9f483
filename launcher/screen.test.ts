import { mkdtemp, rm } from 'node:fs/promises'
import { createServer, type AddressInfo, type Server, type Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { duplexPair, type Duplex } from 'node:stream'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { systemClock } from '../runtime/clock.ts'
import type { JsonObject } from '../runtime/launcher-api.ts'
import { until } from '../test/until.ts'
import { createScreen, vncPlace } from './screen.ts'

let directory: string
let server: Server
let viewers: Socket[]
beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'screen-'))
  viewers = []
  // Greets like QEMU and echoes.
  server = createServer((socket) => {
    viewers.push(socket.on('error', () => {}))
    socket.pipe(socket).write('RFB')
  })
})
afterEach(async () => {
  for (const viewer of viewers) viewer.destroy()
  server.close()
  await rm(directory, { recursive: true })
})

const listen = (...where: [string] | [number, string]) =>
  new Promise<void>((resolve) => void server.listen(...(where as [string]), resolve))
const screenAt = (graphics: JsonObject) =>
  createScreen(async () => ({ devices: { graphics: [graphics] } }), systemClock)

/** Opens a session; returns the client's end and what it has received. */
async function view(open: ReturnType<typeof createScreen>): Promise<{ client: Duplex; heard: () => string }> {
  const session = await open()
  const [ours, theirs] = duplexPair()
  let heard = ''
  ours.on('data', (chunk: Buffer) => (heard += chunk.toString()))
  session.start(theirs)
  return { client: ours, heard: () => heard }
}

test('viewers reach the unix socket of QEMU, up to a limit', async () => {
  const path = join(directory, 'vnc.sock')
  await listen(path)
  const open = screenAt({ type: 'vnc', listens: [{ type: 'socket', socket: path }] })
  const { client, heard } = await view(open)
  client.write('pointer')
  await until(() => heard() === 'RFBpointer')
  for (let count = 1; count < 4; count++) await view(open)
  await expect(open()).rejects.toMatchObject({ reason: 'TooManySessions' })
  client.end()
  const again = await until(() => view(open).catch(() => undefined))
  again?.client.destroy()
})

test('viewers reach a server that listens on all addresses', async () => {
  await listen(0, '127.0.0.1')
  const { port } = server.address() as AddressInfo
  const open = screenAt({ type: 'vnc', port, listens: [{ type: 'address', address: '0.0.0.0' }] })
  const { client, heard } = await view(open)
  await until(() => heard() !== '')
  expect(heard()).toBe('RFB')
  client.destroy()
})

test('a server that does not listen is reported', async () => {
  const open = screenAt({ type: 'vnc', listens: [{ type: 'socket', socket: join(directory, 'absent') }] })
  for (let count = 0; count < 5; count++) {
    await expect(open()).rejects.toMatchObject({ reason: 'NotReady', message: expect.stringContaining('ENOENT') })
  }
})

test.each<[string, JsonObject | undefined, object | undefined]>([
  ['an unknown domain', undefined, undefined],
  ['a domain without a screen', { devices: {} }, undefined],
  ['SPICE', { devices: { graphics: [{ type: 'spice', port: 1, listens: [{ type: 'address' }] }] } }, undefined],
  ['no listener', { devices: { graphics: [{ type: 'vnc', listens: [{ type: 'none' }] }] } }, undefined],
  ['no port', { devices: { graphics: [{ type: 'vnc', port: -1, listens: [{ type: 'address' }] }] } }, undefined],
  [
    'the loopback address',
    { devices: { graphics: [{ type: 'spice' }, { type: 'vnc', port: '5900', listens: [{ type: 'address' }] }] } },
    { host: '127.0.0.1', port: 5900 },
  ],
  [
    'all addresses of IPv6',
    { devices: { graphics: [{ type: 'vnc', port: 5900, listens: [{ type: 'address', address: '::' }] }] } },
    { host: '::1', port: 5900 },
  ],
])('the place of %s', (_, domain, expected) => expect(vncPlace(domain)).toEqual(expected))
