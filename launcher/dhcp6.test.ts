import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { parseDhcp6Request, respondDhcp6 } from './dhcp6.ts'

const offer = { ip: 'fd00::5', dns: ['fd00:96::a'], search: ['cluster.local'] }
const own = 'fd000000000000000000000000000005'
const other = 'fd000000000000000000000000000006'
const client = '00030001525400000001'
const server = '00030001020000005654'
const forever = 'ffffffff'

const number = (value: number) => value.toString(16).padStart(4, '0')
const option = (code: number, value = '') => number(code) + number(value.length / 2) + value
const address = (ip: string, lifetime = '00000000') => option(5, ip + lifetime + lifetime)
const association = (contents = '', id = '00000001') => option(3, `${id}0000000000000000${contents}`)
const status = (code: number) => option(13, number(code))

const [fromClient, toServer] = [option(1, client), option(2, server)]
const message = (type: number, ...options: readonly string[]) =>
  Buffer.from(`${type.toString(16).padStart(2, '0')}abcdef${options.join('')}`, 'hex')

/** In hex. */
function respond(packet: Buffer): string | undefined {
  const request = parseDhcp6Request(packet)
  return request && respondDhcp6(request, offer)?.toString('hex')
}

const identities = toServer + fromClient
const settings = option(23, 'fd00009600000000000000000000000a') + option(24, '07636c7573746572056c6f63616c00')
const given = (id = '00000001', ...others: readonly string[]) =>
  option(3, id + forever + forever + address(own, forever) + others.map((ip) => address(ip)).join(''))
const reply = (...options: readonly string[]) => `07abcdef${identities}${options.join('')}`

describe('a message', () => {
  test.each<[string, Buffer, string | undefined]>([
    [
      'to solicit servers is answered with the address of the tap',
      message(1, fromClient, association(), option(8, '0000')),
      `02abcdef${identities}${given()}${settings}`,
    ],
    [
      'to solicit an address at once',
      message(1, fromClient, association(), option(14)),
      reply(option(14), given(), settings),
    ],
    [
      'to solicit another address',
      message(1, fromClient, association(address(other))),
      `02abcdef${identities}${given('00000001', other)}${settings}`,
    ],
    ['to request the address', message(3, fromClient, toServer, association(address(own))), reply(given(), settings)],
    [
      'to renew it',
      message(5, fromClient, toServer, association(address(own), '0a0b0c0d')),
      reply(given('0a0b0c0d'), settings),
    ],
    [
      'to renew another address',
      message(5, fromClient, toServer, association(address(other))),
      reply(given('00000001', other), settings),
    ],
    ['to rebind it', message(6, fromClient, association(address(own))), reply(given(), settings)],
    [
      'of two associations gives the address to the first',
      message(3, fromClient, toServer, association(), association(address(own), '00000002')),
      reply(given(), option(3, `00000002${forever}${forever}${status(2)}${address(own)}`), settings),
    ],
    ['to confirm it', message(4, fromClient, association(address(own))), reply(status(0))],
    [
      'to confirm another address',
      message(4, fromClient, association(address(own) + address(other))),
      reply(status(4)),
    ],
    ['to confirm nothing', message(4, fromClient, association()), undefined],
    ['to release it', message(8, fromClient, toServer, association(address(own))), reply(status(0))],
    ['to decline it', message(9, fromClient, toServer, association(address(own))), reply(status(0))],
    ['for settings', message(11, fromClient), reply(settings)],
    ['for settings, without a name', message(11), `07abcdef${toServer}${settings}`],
    ['for settings of another server', message(11, option(2, `${server}00`)), undefined],
    ['to request of another server', message(3, fromClient, option(2, `${server}00`), association()), undefined],
    ['to request of no server', message(3, fromClient, association()), undefined],
    ['to solicit a certain server', message(1, fromClient, toServer, association()), undefined],
    ['without a client', message(1, association()), undefined],
    ['of a client without a name', message(1, option(1), association()), undefined],
    ['of a client with a long name', message(1, option(1, '00'.repeat(131)), association()), undefined],
    ['of a server', message(7, fromClient, toServer), undefined],
    ['of a relay', message(12, fromClient), undefined],
    ['that is empty', Buffer.alloc(0), undefined],
    ['that ends in its head', message(11).subarray(0, 3), undefined],
    [
      'with an option that is cut off',
      Buffer.concat([message(11, fromClient), Buffer.from('000300ff00', 'hex')]),
      reply(settings),
    ],
    ['with an association that is cut off', message(3, fromClient, toServer, option(3, '00000001')), reply(settings)],
    ['with an address that is cut off', message(4, fromClient, association(option(5, own))), undefined],
  ])('%s', (_, packet, expected) => {
    expect(respond(packet)).toBe(expected)
  })
})

/** Options of any codes and lengths, also within each other, and any bytes after them. */
const hostile = fc
  .record({
    type: fc.oneof(fc.constantFrom(1, 3, 4, 5, 6, 8, 9, 11), fc.nat(255)),
    options: fc.array(
      fc.oneof(
        fc.constantFrom(fromClient, toServer, association(address(own)), association(address(other)), option(14)),
        fc
          .tuple(fc.nat(30), fc.uint8Array({ maxLength: 300 }))
          .map(([code, value]) => option(code, Buffer.from(value).toString('hex'))),
      ),
      { maxLength: 40 },
    ),
    changes: fc.array(fc.tuple(fc.nat(4000), fc.nat(255)), { maxLength: 4 }),
    tail: fc.uint8Array({ maxLength: 100 }),
  })
  .map(({ type, options, changes, tail }) => {
    const bytes = Buffer.concat([message(type, ...options), tail])
    for (const [at, value] of changes) if (at < bytes.length) bytes[at] = value
    return bytes
  })

test('any packet is either ignored or answered with no address but that of the tap', () => {
  fc.assert(
    fc.property(hostile, (packet) => {
      const request = parseDhcp6Request(packet)
      const response = request && respondDhcp6(request, offer)
      if (response === undefined) return
      expect(response.length).toBeLessThanOrEqual(1232)
      expect([2, 7]).toContain(response[0])
      const valid = addressesIn(response.subarray(4)).filter(({ lifetime }) => lifetime !== 0)
      expect(valid.filter(({ ip }) => ip !== own)).toEqual([])
    }),
    { numRuns: Number(process.env['PROPERTY_RUNS'] ?? 2000) },
  )
})

/** The addresses in the associations of a response, all of whose options must be whole. */
function addressesIn(bytes: Buffer): { ip: string; lifetime: number }[] {
  return optionsIn(bytes).flatMap(([code, value]) => {
    if (code === 3) return addressesIn(value.subarray(12))
    return code === 5 ? [{ ip: value.subarray(0, 16).toString('hex'), lifetime: value.readUInt32BE(20) }] : []
  })
}

function optionsIn(bytes: Buffer): [number, Buffer][] {
  const found: [number, Buffer][] = []
  let at = 0
  while (at < bytes.length) {
    const end = at + 4 + bytes.readUInt16BE(at + 2)
    expect(end).toBeLessThanOrEqual(bytes.length)
    found.push([bytes.readUInt16BE(at), bytes.subarray(at + 4, end)])
    at = end
  }
  return found
}

test('a packet of the largest size is read in one pass', () => {
  const nested = Buffer.concat([
    message(3, fromClient, toServer),
    Buffer.alloc(65_000, Buffer.from(option(3, '00'.repeat(12)), 'hex')),
  ])
  expect(parseDhcp6Request(nested)?.associations).toHaveLength(4)
})
