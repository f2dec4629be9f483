import type { Dhcp6Offer } from '../runtime/network-api.ts'
import { nameOf } from './dhcp.ts'
import { ipv6Bytes } from './ipv6.ts'

const messages = {
  solicit: 1,
  request: 3,
  confirm: 4,
  renew: 5,
  rebind: 6,
  release: 8,
  decline: 9,
  information: 11,
} as const
const advertise = 2
const reply = 7

const option = {
  client: 1,
  server: 2,
  addresses: 3,
  address: 5,
  status: 13,
  rapid: 14,
  dns: 23,
  search: 24,
} as const
const status = { success: 0, noAddress: 2, notOnLink: 4 } as const

/** What a guest asked for (RFC 8415), as far as the answer depends on it. */
export interface Dhcp6Request {
  readonly type: keyof typeof messages
  /** The client's number of the exchange. */
  readonly transaction: Buffer
  /** The identifier of the client, which the response repeats. */
  readonly client: Buffer | undefined
  readonly server: Buffer | undefined
  /** Whether the client would take the address without a further exchange. */
  readonly isRapid: boolean
  /** For each association of addresses, its number and the addresses that the guest has or wants. */
  readonly associations: readonly { readonly id: Buffer; readonly addresses: readonly Buffer[] }[]
}

/** Of type 3 (RFC 8415), with the hardware type Ethernet. The same for every guest, each of which has its own link. */
const server = Buffer.from('00030001' + '020000005654', 'hex')
const forever = Buffer.alloc(4, 0xff)
const never = Buffer.alloc(4)
/** A guest has one association for each interface. */
const mostAssociations = 4
const mostAddresses = 8
/** By RFC 8415. */
const maxClientBytes = 130
/** What fits into a packet of any link. */
const maxMessageBytes = 1232

const types = new Map<number | undefined, Dhcp6Request['type']>([
  [messages.solicit, 'solicit'],
  [messages.request, 'request'],
  [messages.confirm, 'confirm'],
  [messages.renew, 'renew'],
  [messages.rebind, 'rebind'],
  [messages.release, 'release'],
  [messages.decline, 'decline'],
  [messages.information, 'information'],
])

/**
 * The request in a UDP packet of a guest, which can contain anything; undefined if it is none that a server answers.
 * Takes time that is linear in the packet's length.
 */
export function parseDhcp6Request(packet: Buffer): Dhcp6Request | undefined {
  const type = types.get(packet[0])
  if (type === undefined || packet.length < 4) return undefined
  const options = readOptions(packet.subarray(4))
  const client = valuesOf(options, option.client)[0]
  if (client !== undefined && (client.length === 0 || client.length > maxClientBytes)) return undefined
  return {
    type,
    transaction: packet.subarray(1, 4),
    client,
    server: valuesOf(options, option.server)[0],
    isRapid: valuesOf(options, option.rapid).length > 0,
    associations: valuesOf(options, option.addresses)
      .filter((value) => value.length >= 12)
      .slice(0, mostAssociations)
      .map((value) => ({
        id: value.subarray(0, 4),
        addresses: valuesOf(readOptions(value.subarray(12)), option.address)
          .filter((address) => address.length >= 24)
          .slice(0, mostAddresses)
          .map((address) => address.subarray(0, 16)),
      })),
  }
}

type Option = readonly [code: number, value: Buffer]

/** Options that the packet cuts off are ignored. */
function readOptions(bytes: Buffer): Option[] {
  const found: Option[] = []
  for (let at = 0; at + 4 <= bytes.length;) {
    const end = at + 4 + bytes.readUInt16BE(at + 2)
    if (end > bytes.length) break
    found.push([bytes.readUInt16BE(at), bytes.subarray(at + 4, end)])
    at = end
  }
  return found
}

const valuesOf = (options: readonly Option[], wanted: number): Buffer[] =>
  options.flatMap(([code, value]) => (code === wanted ? [value] : []))

/** The messages that name the server whose address the guest has accepted. */
const toOneServer = new Set<Dhcp6Request['type']>(['request', 'renew', 'release', 'decline'])

/**
 * The response to a request; undefined if it is not valid or for another server. The only address that is ever offered
 * is that of the tap.
 */
export function respondDhcp6(request: Dhcp6Request, offer: Dhcp6Offer): Buffer | undefined {
  const { type, client, isRapid, associations } = request
  if (type === 'information') {
    if (request.server !== undefined && !request.server.equals(server)) return undefined
    return messageOf(reply, request, settingsOf(offer))
  }
  if (client === undefined) return undefined
  if (toOneServer.has(type) ? request.server?.equals(server) !== true : request.server !== undefined) return undefined
  const ip = ipv6Bytes(offer.ip)
  switch (type) {
    case 'solicit':
      return isRapid
        ? messageOf(reply, request, [[option.rapid, Buffer.alloc(0)], ...given(associations, ip), ...settingsOf(offer)])
        : messageOf(advertise, request, [...given(associations, ip), ...settingsOf(offer)])
    case 'request':
    case 'renew':
    case 'rebind':
      return messageOf(reply, request, [...given(associations, ip), ...settingsOf(offer)])
    case 'confirm': {
      const addresses = associations.flatMap((one) => one.addresses)
      if (addresses.length === 0) return undefined
      const isOwn = addresses.every((one) => one.equals(ip))
      return messageOf(reply, request, [statusOf(isOwn ? status.success : status.notOnLink)])
    }
    case 'release':
    case 'decline':
      return messageOf(reply, request, [statusOf(status.success)])
  }
}

/** The first association gets the address. Others that the guest has are void. */
const given = (associations: Dhcp6Request['associations'], ip: Buffer): Option[] =>
  associations.map(({ id, addresses }, index) => {
    const isFirst = index === 0
    const others = isFirst ? addresses.filter((one) => !one.equals(ip)) : addresses
    const contents: Option[] = [
      ...(isFirst ? [addressOf(ip, forever)] : [statusOf(status.noAddress)]),
      ...others.map((one) => addressOf(one, never)),
    ]
    return [option.addresses, Buffer.concat([id, forever, forever, ...contents.map(encode)])]
  })

const addressOf = (ip: Buffer, lifetime: Buffer): Option => [option.address, Buffer.concat([ip, lifetime, lifetime])]
const statusOf = (code: number): Option => [option.status, Buffer.from([0, code])]

const settingsOf = ({ dns = [], search = [] }: Dhcp6Offer): Option[] => [
  ...(dns.length === 0 ? [] : [[option.dns, Buffer.concat(dns.map(ipv6Bytes))] as const]),
  ...(search.length === 0 ? [] : [[option.search, Buffer.from(search.flatMap(nameOf))] as const]),
]

/** The most important options first: those for which there is no room are left out. */
function messageOf(type: number, { transaction, client }: Dhcp6Request, options: readonly Option[]): Buffer {
  const identities: Option[] = [
    [option.server, server],
    ...(client === undefined ? [] : [[option.client, client] as const]),
  ]
  let bytes = Buffer.concat([Buffer.from([type]), transaction])
  for (const one of [...identities, ...options].map(encode))
    if (bytes.length + one.length <= maxMessageBytes) bytes = Buffer.concat([bytes, one])
  return bytes
}

function encode([code, value]: Option): Buffer {
  const head = Buffer.alloc(4)
  head.writeUInt16BE(code)
  head.writeUInt16BE(value.length, 2)
  return Buffer.concat([head, value])
}
