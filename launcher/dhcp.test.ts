import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import type { DhcpOffer } from '../runtime/network-api.ts'
import { parseDhcpRequest, parseResolvConf, respondDhcp } from './dhcp.ts'

const mac = '52:54:00:00:00:01'
const offer: DhcpOffer = {
  ip: '10.0.0.5',
  prefix: 24,
  gateway: '10.0.0.1',
  mtu: 1450,
  dns: ['10.96.0.10'],
  search: ['default.svc.cluster.local', 'cluster.local'],
}
const taps = [{ mac, dhcp: offer }]

interface Sent {
  readonly type?: number
  readonly options?: readonly (readonly [number, readonly number[]])[]
  readonly clientAddress?: readonly number[]
  readonly mac?: string
}

/** A packet of a client. */
function packet({ type = 1, options = [], clientAddress = [0, 0, 0, 0], mac: from = mac }: Sent = {}): Buffer {
  const head = Buffer.alloc(240)
  head.set([1, 1, 6, 0, 0xde, 0xad, 0xbe, 0xef])
  head.set(clientAddress, 12)
  head.set(Buffer.from(from.replaceAll(':', ''), 'hex'), 28)
  head.writeUInt32BE(0x63825363, 236)
  const bytes = [[53, [type]] as const, ...options].flatMap(([code, value]) => [code, value.length, ...value])
  return Buffer.concat([head, Buffer.from([...bytes, 255])])
}

/** The options of a response, each in hex. */
function optionsOf(response: Buffer): Record<number, string> {
  const found: Record<number, string> = {}
  for (let at = 240; response[at] !== 255; at += 2 + (response[at + 1] ?? 0))
    found[response[at] ?? 0] = response.subarray(at + 2, at + 2 + (response[at + 1] ?? 0)).toString('hex')
  return found
}

function respond(sent: Sent, given = taps): Buffer | undefined {
  const request = parseDhcpRequest(packet(sent))
  return request && respondDhcp(request, given)
}

const typeOf = (response: Buffer | undefined) => response && Number.parseInt(optionsOf(response)[53] ?? '', 16)

describe('a request', () => {
  test('to discover a server is answered with the address of the tap and its options', () => {
    const response = respond({}) ?? Buffer.alloc(0)
    expect(response.subarray(0, 8).toString('hex')).toBe('02010600deadbeef')
    expect(response.readUInt16BE(10)).toBe(0x8000)
    expect([...response.subarray(16, 20)]).toEqual([10, 0, 0, 5])
    expect(response.subarray(28, 34).toString('hex')).toBe('525400000001')
    expect(optionsOf(response)).toEqual({
      53: '02',
      54: '0a000001',
      51: 'ffffffff',
      1: 'ffffff00',
      3: '0a000001',
      6: '0a60000a',
      26: '05aa',
      119: Buffer.from('\x07default\x03svc\x07cluster\x05local\0\x07cluster\x05local\0').toString('hex'),
    })
  })

  test.each<[string, Sent, number | undefined]>([
    ['for the address of the tap', { type: 3, options: [[50, [10, 0, 0, 5]]] }, 5],
    ['for the address that it has', { type: 3, clientAddress: [10, 0, 0, 5] }, 5],
    ['for another address', { type: 3, options: [[50, [10, 0, 0, 6]]] }, 6],
    ['for another address that it has', { type: 3, clientAddress: [10, 0, 0, 6] }, 6],
    ['for the offer of this server', { type: 3, options: [[54, [10, 0, 0, 1]]] }, 5],
    ['for the offer of another server', { type: 3, options: [[54, [10, 0, 0, 2]]] }, undefined],
    ['for options', { type: 8, clientAddress: [10, 0, 0, 6] }, 5],
    ['of another interface', { mac: '52:54:00:00:00:02' }, undefined],
    ['to decline an address', { type: 4 }, undefined],
    ['to release an address', { type: 7 }, undefined],
    ['of an unknown type', { type: 99 }, undefined],
    ['with an address of the wrong length', { type: 3, options: [[50, [10, 0]]] }, 5],
  ])('%s', (_, sent, type) => {
    expect(typeOf(respond(sent))).toBe(type)
  })
})

test('a refusal has no address and no options', () => {
  const response = respond({ type: 3, options: [[50, [10, 0, 0, 6]]] }) ?? Buffer.alloc(0)
  expect([...response.subarray(16, 20)]).toEqual([0, 0, 0, 0])
  expect(Object.keys(optionsOf(response))).toEqual(['53', '54'])
})

test('a gateway outside the subnet is reached by a route of its own', () => {
  const far = [{ mac, dhcp: { ip: '10.0.0.5', prefix: 32, gateway: '169.254.1.1' } }]
  const options = optionsOf(respond({}, far) ?? Buffer.alloc(0))
  expect(options).toMatchObject({ 1: 'ffffffff', 3: 'a9fe0101', 121: '20a9fe01010000000000a9fe0101' })
})

test('without a gateway, the server has the address of the guest', () => {
  const options = optionsOf(respond({}, [{ mac, dhcp: { ip: '10.0.0.5', prefix: 0 } }]) ?? Buffer.alloc(0))
  expect(options).toEqual({ 53: '02', 54: '0a000005', 51: 'ffffffff', 1: '00000000' })
})

test('a search list that is too long, and names that are not valid, are left out', () => {
  const long = Array.from({ length: 16 }, (_, index) => `${'x'.repeat(60)}.${index}.example.org`)
  const withSearch = (search: readonly string[]) =>
    optionsOf(respond({}, [{ mac, dhcp: { ...offer, search } }]) ?? Buffer.alloc(0))
  expect(withSearch(long)).not.toHaveProperty('119')
  expect(withSearch(['a..b', `${'x'.repeat(64)}.org`, 'ok.'])).toHaveProperty('119', '026f6b00')
})

test.each<[string, Buffer]>([
  ['is empty', Buffer.alloc(0)],
  ['ends in its head', packet().subarray(0, 239)],
  ['is a response', Buffer.concat([Buffer.from([2]), packet().subarray(1)])],
  ['is not of Ethernet', Buffer.concat([Buffer.from([1, 6]), packet().subarray(2)])],
  ['has a longer hardware address', Buffer.concat([Buffer.from([1, 1, 16]), packet().subarray(3)])],
  ['has another cookie', Buffer.concat([packet().subarray(0, 236), Buffer.alloc(20)])],
  ['has no options', packet().subarray(0, 240)],
  ['ends within an option', packet().subarray(0, 242)],
])('a packet that %s is ignored', (_, given) => {
  expect(parseDhcpRequest(given)).toBeUndefined()
})

test('padding, and the second of two equal options, are ignored', () => {
  const bytes = packet({ options: [[53, [3]]] })
  const padded = Buffer.concat([bytes.subarray(0, 240), Buffer.alloc(7), bytes.subarray(240)])
  expect(parseDhcpRequest(padded)).toMatchObject({ type: 'discover', mac, transaction: 0xdeadbeef })
})

/** Valid packets with any bytes changed, inserted or cut off. */
const mutated = fc
  .tuple(
    fc.array(fc.tuple(fc.nat(400), fc.integer({ min: 0, max: 255 })), { maxLength: 8 }),
    fc.uint8Array({ maxLength: 600 }),
    fc.nat(900),
  )
  .map(([changes, tail, length]) => {
    const bytes = Buffer.concat([packet({ type: 3 }).subarray(0, 243), tail])
    for (const [at, value] of changes) if (at < bytes.length) bytes[at] = value
    return bytes.subarray(0, length)
  })

test('any packet is either ignored or answered with the address of the tap', () => {
  fc.assert(
    fc.property(mutated, (bytes) => {
      const request = parseDhcpRequest(bytes)
      const response = request && respondDhcp(request, taps)
      if (response === undefined) return
      expect(response.length).toBeLessThanOrEqual(576)
      expect(['0.0.0.0', offer.ip]).toContain([...response.subarray(16, 20)].join('.'))
      expect(typeOf(response)).toBeGreaterThan(0)
    }),
    { numRuns: Number(process.env['PROPERTY_RUNS'] ?? 2000) },
  )
})

test('the DNS servers and the last search list of a resolv.conf are found', () => {
  const text =
    'search a\nsearch default.svc.cluster.local svc.cluster.local\nnameserver 10.96.0.10\nnameserver fd00::1\n'
  expect(parseResolvConf(`${text}options ndots:5\n`)).toEqual({
    dns: ['10.96.0.10'],
    dns6: ['fd00::1'],
    search: ['default.svc.cluster.local', 'svc.cluster.local'],
  })
  expect(parseResolvConf('nameserver fe80::1%eth0\n')).toEqual({ dns: [], dns6: [], search: [] })
})
