import { isIPv4, isIPv6 } from 'node:net'
import type { DhcpOffer, TapAddress } from '../runtime/network-api.ts'

/** What a guest asked for (RFC 2131), as far as the answer depends on it. */
export interface DhcpRequest {
  readonly type: 'discover' | 'request' | 'inform'
  /** The client's number of the exchange. */
  readonly transaction: number
  readonly mac: string
  /** The address that a `request` accepts. */
  readonly wanted: string | undefined
  /** The server whose offer a `request` accepts. */
  readonly server: string | undefined
}

/** A DHCP packet without options. */
const headBytes = 236
const cookie = 0x63825363
const ethernet = 1
/** A client need not accept longer packets. */
const maxPacketBytes = 576

const requestTypes = new Map<number | undefined, DhcpRequest['type']>([
  [1, 'discover'],
  [3, 'request'],
  [8, 'inform'],
])
const responseTypes = { offer: 2, ack: 5, nak: 6 } as const

const option = {
  pad: 0,
  mask: 1,
  router: 3,
  dns: 6,
  mtu: 26,
  wanted: 50,
  leaseSeconds: 51,
  type: 53,
  server: 54,
  search: 119,
  routes: 121,
  end: 255,
} as const

/** A unicast renewal would go to the gateway, which has no server. */
const infinite = 0xffff_ffff

/**
 * The request in a UDP packet of a guest, which can contain anything; undefined if it is none that a server answers.
 * Takes time that is linear in the packet's length.
 */
export function parseDhcpRequest(packet: Buffer): DhcpRequest | undefined {
  if (packet.length < headBytes + 4 || packet.readUInt32BE(headBytes) !== cookie) return undefined
  const [operation, hardware, hardwareBytes] = packet
  if (operation !== 1 || hardware !== ethernet || hardwareBytes !== 6) return undefined
  const options = readOptions(packet.subarray(headBytes + 4))
  const type = requestTypes.get(options.get(option.type)?.[0])
  if (type === undefined) return undefined
  const own = addressAt(packet.subarray(12, 16))
  return {
    type,
    transaction: packet.readUInt32BE(4),
    mac: [...packet.subarray(28, 34)].map((byte) => byte.toString(16).padStart(2, '0')).join(':'),
    wanted: addressAt(options.get(option.wanted)) ?? (own === '0.0.0.0' ? undefined : own),
    server: addressAt(options.get(option.server)),
  }
}

/** The first of each option; options that the packet cuts off are ignored. */
function readOptions(bytes: Buffer): Map<number, Buffer> {
  const found = new Map<number, Buffer>()
  let at = 0
  while (at < bytes.length) {
    const code = bytes[at]
    if (code === undefined || code === option.end) break
    if (code === option.pad) {
      at += 1
      continue
    }
    const length = bytes[at + 1]
    if (length === undefined || at + 2 + length > bytes.length) break
    if (!found.has(code)) found.set(code, bytes.subarray(at + 2, at + 2 + length))
    at += 2 + length
  }
  return found
}

const addressAt = (bytes: Buffer | undefined): string | undefined =>
  bytes?.length === 4 ? [...bytes].join('.') : undefined

/** What the interface of the guest that has sent the request is offered. */
export const offerTo = ({ mac }: DhcpRequest, taps: readonly TapAddress[]): DhcpOffer | undefined =>
  taps.find((tap) => tap.mac === mac)?.dhcp

/**
 * The response to a request; undefined if it is for another server or of another interface. The only address that is
 * ever offered is that of the tap.
 */
export function respondDhcp(request: DhcpRequest, taps: readonly TapAddress[]): Buffer | undefined {
  const offer = offerTo(request, taps)
  if (offer === undefined) return undefined
  const server = offer.gateway ?? offer.ip
  if (request.server !== undefined && request.server !== server) return undefined
  if (request.type === 'discover') return packetOf('offer', request, offer, server)
  const isOther = request.wanted !== undefined && request.wanted !== offer.ip
  return packetOf(request.type === 'request' && isOther ? 'nak' : 'ack', request, offer, server)
}

function packetOf(type: keyof typeof responseTypes, request: DhcpRequest, offer: DhcpOffer, server: string): Buffer {
  const head = Buffer.alloc(headBytes + 4)
  head.set([2, ethernet, 6, 0])
  head.writeUInt32BE(request.transaction, 4)
  // Broadcast, since the guest has no address yet.
  head.writeUInt16BE(0x8000, 10)
  if (type !== 'nak') head.set(bytesOf(offer.ip), 16)
  head.set(Buffer.from(request.mac.replaceAll(':', ''), 'hex'), 28)
  head.writeUInt32BE(cookie, headBytes)
  const first: readonly Option[] = [
    [option.type, [responseTypes[type]]],
    [option.server, bytesOf(server)],
  ]
  const rest = type === 'nak' ? [] : optionsOf(offer, request.type === 'inform')
  return withOptions(head, [...first, ...rest])
}

type Option = readonly [code: number, value: readonly number[]]

/** The most important ones first: those for which there is no room are left out. */
function optionsOf(offer: DhcpOffer, isInform: boolean): Option[] {
  const { ip, prefix, gateway, mtu, dns = [], search = [] } = offer
  const mask = prefix === 0 ? 0 : (0xffff_ffff << (32 - prefix)) >>> 0
  const isNear = gateway !== undefined && ((numberOf(ip) ^ numberOf(gateway)) & mask) === 0
  return [
    ...(isInform ? [] : [[option.leaseSeconds, uint32(infinite)] as const]),
    [option.mask, uint32(mask)],
    ...(gateway === undefined ? [] : [[option.router, bytesOf(gateway)] as const]),
    // A gateway outside the subnet, as some networks have, is reached by a route of its own (RFC 3442).
    ...(gateway === undefined || isNear
      ? []
      : [[option.routes, [32, ...bytesOf(gateway), 0, 0, 0, 0, 0, ...bytesOf(gateway)]] as const]),
    ...(dns.length === 0 ? [] : [[option.dns, dns.flatMap(bytesOf)] as const]),
    ...(mtu === undefined ? [] : [[option.mtu, [mtu >> 8, mtu & 0xff]] as const]),
    ...(search.length === 0 ? [] : [[option.search, search.flatMap(nameOf)] as const]),
  ]
}

function withOptions(head: Buffer, options: readonly Option[]): Buffer {
  const bytes: number[] = []
  for (const [code, value] of options) {
    // Room for the end.
    if (value.length > 255 || head.length + bytes.length + 2 + value.length + 1 > maxPacketBytes) continue
    bytes.push(code, value.length, ...value)
  }
  return Buffer.concat([head, Buffer.from([...bytes, option.end])])
}

const bytesOf = (ip: string): number[] => ip.split('.').map(Number)
const numberOf = (ip: string): number => Buffer.from(bytesOf(ip)).readUInt32BE()
const uint32 = (value: number): number[] => [value >>> 24, (value >>> 16) & 0xff, (value >>> 8) & 0xff, value & 0xff]

/** A domain name as DNS encodes it (RFC 3397), without compression; nothing if it is not valid. */
export function nameOf(name: string): number[] {
  const labels = name.replace(/\.$/, '').split('.')
  if (labels.some((label) => label === '' || label.length > 63)) return []
  return [...labels.flatMap((label) => [label.length, ...Buffer.from(label, 'latin1')]), 0]
}

/** The DNS servers, by family, and the search list. */
export interface ResolvConf {
  readonly dns: readonly string[]
  readonly dns6: readonly string[]
  readonly search: readonly string[]
}

/** Reads a resolv.conf, which the kubelet writes for the pod. */
export function parseResolvConf(text: string): ResolvConf {
  const lines = text.split('\n').map((line) => line.trim().split(/\s+/))
  const servers = lines.flatMap(([key, address]) => (key === 'nameserver' && address !== undefined ? [address] : []))
  const [, ...search] = lines.findLast(([key]) => key === 'search') ?? []
  const dns6 = servers.filter((address) => isIPv6(address) && !address.includes('%'))
  return { dns: servers.filter((one) => isIPv4(one)).slice(0, 3), dns6: dns6.slice(0, 3), search: search.slice(0, 16) }
}
