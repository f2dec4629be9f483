import { once } from 'node:events'
import { createServer, type Socket } from 'node:net'

/** What the guest sees. The id is one for tests (https://pid.codes/1209/0001). */
export const redirected = { id: '1209:0001', name: 'virtset test device' } as const

/** Packets of the protocol usbredir 0.7, and its result `stall`: the device does not know the request. */
const packet = {
  hello: 0,
  deviceConnect: 1,
  interfaceInfo: 4,
  endpointInfo: 5,
  setConfiguration: 6,
  configurationStatus: 8,
  control: 100,
} as const
const stall = 4

/** Of USB. */
const getDescriptor = 0x8006

const hex = (text: string): Buffer => Buffer.from(text.replaceAll(' ', ''), 'hex')
const descriptor = (kind: number, rest: Buffer): Buffer => Buffer.concat([Buffer.from([rest.length + 2, kind]), rest])

/** Vendor and product, as the device sends them. */
const ids = '0912 0100'

/** By `wValue`. The device has no endpoints but that for control, and no driver. */
const descriptors: ReadonlyMap<number, Buffer> = new Map([
  // USB 1.1; the last two are the index of the name and the number of configurations.
  [0x0100, descriptor(1, hex(`1001 00 00 00 08 ${ids} 0001 00 01 00 01`))],
  [0x0200, Buffer.concat([descriptor(2, hex('1200 01 01 00 80 32')), descriptor(4, hex('00 00 00 ff 00 00 00'))])],
  [0x0300, descriptor(3, hex('0904'))],
  [0x0301, descriptor(3, Buffer.from(redirected.name, 'utf16le'))],
])

/** Those that QEMU requires for its xHCI: sizes of packets in `endpointInfo`, ids of 64 bits, lengths of 32 bits. */
const capabilities = (1 << 4) | (1 << 5) | (1 << 6)

/** The bytes of a header: type, length, id. In the greetings of both sides, the id has 32 bits. */
const [greetingHeader, header] = [12, 16]

function encode(type: number, id: bigint, ...parts: readonly Uint8Array[]): Buffer {
  const body = Buffer.concat(parts)
  const head = Buffer.alloc(type === packet.hello ? greetingHeader : header)
  head.writeUInt32LE(type, 0)
  head.writeUInt32LE(body.length, 4)
  if (type !== packet.hello) head.writeBigUInt64LE(id, 8)
  return Buffer.concat([head, body])
}

const hello = encode(
  packet.hello,
  0n,
  Buffer.from('virtset test'.padEnd(64, '\0')),
  Buffer.from([capabilities, 0, 0, 0]),
)

/** One interface, and an endpoint for control in each direction. */
function announcement(): Buffer {
  const interfaces = Buffer.alloc(4 + 4 * 32)
  interfaces.writeUInt32LE(1)
  interfaces[4 + 32] = 0xff
  const endpoints = Buffer.alloc((3 + 2) * 32)
  endpoints.fill(255, 0, 32)
  endpoints[0] = endpoints[16] = 0
  for (const endpoint of [0, 16]) endpoints.writeUInt16LE(8, 3 * 32 + 2 * endpoint)
  return Buffer.concat([
    encode(packet.interfaceInfo, 0n, interfaces),
    encode(packet.endpointInfo, 0n, endpoints),
    // At full speed; its class is that of its interface.
    encode(packet.deviceConnect, 0n, hex(`01 00 00 00 ${ids}`)),
  ])
}

/** The response to a packet of the guest. Those that are left out here, such as resets, have none. */
function respond(type: number, id: bigint, body: Buffer): Buffer {
  if (type === packet.hello) return Buffer.concat([hello, announcement()])
  if (type === packet.setConfiguration) return encode(packet.configurationStatus, id, Buffer.from([0, body[0] ?? 0]))
  if (type !== packet.control) return Buffer.alloc(0)
  // The endpoint, the request and its type, the status, wValue, wIndex, wLength.
  const request = Buffer.from(body.subarray(0, 10))
  const isKnown = request.readUInt8(2) * 256 + request.readUInt8(1) === getDescriptor
  const data = isKnown ? descriptors.get(request.readUInt16LE(4))?.subarray(0, request.readUInt16LE(8)) : undefined
  request[3] = data === undefined ? stall : 0
  request.writeUInt16LE(data?.length ?? 0, 8)
  return encode(packet.control, id, request, data ?? Buffer.alloc(0))
}

function serve(socket: Socket): void {
  let left = Buffer.alloc(0)
  let isGreeted = false
  socket.on('data', (chunk: Buffer) => {
    left = Buffer.concat([left, chunk])
    for (;;) {
      const start = isGreeted ? header : greetingHeader
      const end = left.length < start ? Infinity : start + left.readUInt32LE(4)
      if (left.length < end) return
      const id = isGreeted ? left.readBigUInt64LE(8) : 0n
      socket.write(respond(left.readUInt32LE(0), id, left.subarray(start, end)))
      isGreeted = true
      left = left.subarray(end)
    }
  })
  socket.on('error', () => socket.destroy())
}

/** A USB device at the other end of a TCP connection. Returns the port at the loopback address. */
export async function startRedirectedDevice(): Promise<{ readonly port: number; close(): void }> {
  const server = createServer(serve).listen(0, '127.0.0.1')
  await once(server, 'listening')
  const bound = server.address()
  if (bound === null || typeof bound === 'string') throw new Error('the device has no port')
  return { port: bound.port, close: () => void server.close() }
}
