import { ProtocolError } from './errors.ts'

export const packetType = {
  call: 0,
  reply: 1,
  message: 2,
  stream: 3,
  callWithFds: 4,
  replyWithFds: 5,
  streamHole: 6,
} as const

export const packetStatus = { ok: 0, error: 1, continue: 2 } as const

export interface Packet {
  readonly program: number
  readonly version: number
  readonly procedure: number
  readonly type: number
  readonly serial: number
  readonly status: number
  readonly payload: Uint8Array
}

/** The length word and the six words of the header. */
const headerBytes = 28

/** libvirt's VIR_NET_MESSAGE_MAX plus the length word, which it does not include. */
const maxPacketBytes = 32 * 1024 * 1024 + 4

const maxFds = 32

/**
 * The bytes of a packet: length, header, payload.
 * @throws ProtocolError if it is longer than libvirtd would read
 */
export function encodePacket(packet: Packet): Buffer {
  const length = headerBytes + packet.payload.length
  if (length > maxPacketBytes)
    throw new ProtocolError(`a message of ${length} bytes exceeds the limit of ${maxPacketBytes}`)
  const bytes = Buffer.allocUnsafe(length)
  bytes.writeUInt32BE(length, 0)
  bytes.writeUInt32BE(packet.program, 4)
  bytes.writeUInt32BE(packet.version, 8)
  bytes.writeInt32BE(packet.procedure, 12)
  bytes.writeUInt32BE(packet.type, 16)
  bytes.writeUInt32BE(packet.serial, 20)
  bytes.writeUInt32BE(packet.status, 24)
  bytes.set(packet.payload, headerBytes)
  return bytes
}

/**
 * Splits a stream of bytes into packets. The returned function takes the chunks of the socket in order, and returns the
 * complete packets. Chunks are joined once per packet, so that the cost of a long packet in many chunks is linear in
 * its length.
 *
 * For a packet with file descriptors (types 4 and 5), the count is removed from the payload, and the zero byte that
 * libvirt sends for each descriptor after the packet is skipped; node:net drops the descriptors themselves.
 */
export function packetReader(): (chunk: Uint8Array) => Packet[] {
  let chunks: Uint8Array[] = []
  let buffered = 0
  let wanted = 4
  let toSkip = 0

  const take = (length: number): Buffer => {
    const [first] = chunks
    const all = chunks.length === 1 && first !== undefined ? viewOf(first) : Buffer.concat(chunks, buffered)
    chunks = all.length > length ? [all.subarray(length)] : []
    buffered -= length
    return all.subarray(0, length)
  }

  return (chunk) => {
    chunks.push(chunk)
    buffered += chunk.length
    const packets: Packet[] = []
    for (;;) {
      if (toSkip > 0) {
        const skipped = Math.min(toSkip, buffered)
        take(skipped)
        toSkip -= skipped
      }
      if (toSkip > 0 || buffered < wanted) return packets
      if (wanted === 4) {
        wanted = packetLength(chunks)
        continue
      }
      const { packet, fds } = parsePacket(take(wanted))
      packets.push(packet)
      toSkip = fds
      wanted = 4
    }
  }
}

function packetLength(chunks: readonly Uint8Array[]): number {
  let length = 0
  let bytes = 0
  for (const chunk of chunks) {
    for (const byte of chunk.subarray(0, 4 - bytes)) length = length * 256 + byte
    bytes += chunk.length
    if (bytes >= 4) break
  }
  if (length < headerBytes || length > maxPacketBytes) throw new ProtocolError(`a packet of ${length} bytes`)
  return length
}

function parsePacket(bytes: Buffer): { packet: Packet; fds: number } {
  const packet: Packet = {
    program: bytes.readUInt32BE(4),
    version: bytes.readUInt32BE(8),
    procedure: bytes.readInt32BE(12),
    type: bytes.readUInt32BE(16),
    serial: bytes.readUInt32BE(20),
    status: bytes.readUInt32BE(24),
    payload: bytes.subarray(headerBytes),
  }
  if (packet.type !== packetType.replyWithFds && packet.type !== packetType.callWithFds) return { packet, fds: 0 }
  if (bytes.length < headerBytes + 4) throw new ProtocolError('a packet with descriptors has no count of them')
  const fds = bytes.readUInt32BE(headerBytes)
  if (fds > maxFds) throw new ProtocolError(`${fds} descriptors exceed the limit of ${maxFds}`)
  return { packet: { ...packet, payload: packet.payload.subarray(4) }, fds }
}

function viewOf(bytes: Uint8Array): Buffer {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength)
}
