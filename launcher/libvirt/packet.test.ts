import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { ProtocolError } from './errors.ts'
import { type Packet, encodePacket, packetReader, packetStatus, packetType } from './packet.ts'

const packet: Packet = {
  program: 0x20008086,
  version: 1,
  procedure: 66,
  type: packetType.call,
  serial: 1,
  status: packetStatus.ok,
  payload: Buffer.from('01020304', 'hex'),
}
const bytes = '00000020' + '20008086' + '00000001' + '00000042' + '00000000' + '00000001' + '00000000' + '01020304'

/** The packets that the reader returns for chunks of `size` bytes. */
function read(hex: string, size: number): Packet[] {
  const reader = packetReader()
  const all = Buffer.from(hex, 'hex')
  const packets: Packet[] = []
  for (let at = 0; at < all.length; at += size) packets.push(...reader(all.subarray(at, at + size)))
  return packets
}

describe('a packet', () => {
  test('is a length, six words and a payload', () => expect(encodePacket(packet).toString('hex')).toBe(bytes))

  test.each([1, 2, 3, 4, 5, 31, 32, 33, 64, 1000])('is read from chunks of %d bytes, two in a row', (size) => {
    expect(read(bytes + bytes, size)).toEqual([packet, packet])
  })

  test('keeps bit 31 of its serial', () => {
    const high = { ...packet, serial: 0xffff_fffe }
    expect(read(encodePacket(high).toString('hex'), 7)).toEqual([high])
  })

  test('without payload is read at once', () => {
    const empty = { ...packet, payload: Buffer.alloc(0) }
    expect(read(encodePacket(empty).toString('hex'), 28)).toEqual([empty])
  })

  test('of 32 MiB is the longest', () => {
    const longest = Buffer.alloc(32 * 1024 * 1024 + 4 - 28)
    expect(encodePacket({ ...packet, payload: longest }).length).toBe(33_554_436)
    expect(() => encodePacket({ ...packet, payload: Buffer.alloc(longest.length + 1) })).toThrow(ProtocolError)
  })

  test('of 8 MiB in chunks of 1 KiB is joined once, not for each chunk', () => {
    const long = encodePacket({ ...packet, payload: Buffer.alloc(8 * 1024 * 1024, 7) })
    const reader = packetReader()
    const before = process.cpuUsage().user
    let found: Packet[] = []
    for (let at = 0; at < long.length; at += 1024) found = reader(long.subarray(at, at + 1024))
    expect(found[0]?.payload.length).toBe(8 * 1024 * 1024)
    // Joining for each chunk would copy 32 GiB.
    expect(process.cpuUsage().user - before).toBeLessThan(2_000_000)
  })
})

describe('a packet with file descriptors', () => {
  const header = (length: string) => `${length}2000808600000001000000420000000500000001` + '00000000'

  test.each([1, 2, 5, 36, 1000])(
    'is read without its count and a byte for each descriptor, in chunks of %d bytes',
    (size) => {
      const withFds = header('00000024') + '00000002' + 'aabbccdd' + '0000'
      expect(read(withFds + bytes, size)).toEqual([
        { ...packet, type: packetType.replyWithFds, payload: Buffer.from('aabbccdd', 'hex') },
        packet,
      ])
    },
  )

  test.each([
    ['has no count', `${header('0000001c')}`, 'has no count'],
    ['has more than libvirt allows', `${header('00000020')}00000021`, '33 descriptors exceed the limit of 32'],
  ])('that %s is refused', (_, hex, message) => {
    expect(() => read(hex, 1000)).toThrow(ProtocolError)
    expect(() => read(hex, 1000)).toThrow(message)
  })
})

describe('an invalid length is refused before memory is allocated', () => {
  test.each([
    ['0000001b', 'a packet of 27 bytes'],
    ['02000005', 'a packet of 33554437 bytes'],
    ['ffffffff', 'a packet of 4294967295 bytes'],
  ])('%s', (length, message) => expect(() => read(length, 3)).toThrow(message))
})

test('packets are decoded as they were encoded, however the bytes are split', () => {
  const word = fc.integer({ min: 0, max: 0xffff_ffff })
  const packets = fc.array(
    fc.record({
      program: word,
      version: word,
      procedure: fc.integer(),
      type: fc.constantFrom(0, 1, 2, 3),
      serial: word,
      status: fc.constantFrom(0, 1, 2),
      payload: fc.uint8Array({ maxLength: 300 }).map((payload) => Buffer.from(payload)),
    }),
  )
  const property = fc.property(packets, fc.array(fc.integer({ min: 1, max: 50 }), { minLength: 1 }), (sent, cuts) => {
    const all = Buffer.concat(sent.map(encodePacket))
    const reader = packetReader()
    const received: Packet[] = []
    for (let at = 0, turn = 0; at < all.length; turn += 1) {
      const size = cuts[turn % cuts.length] ?? 1
      received.push(...reader(all.subarray(at, at + size)))
      at += size
    }
    expect(received).toEqual(sent)
  })
  fc.assert(property)
  expect(fc.check(property).failed).toBe(false)
})
