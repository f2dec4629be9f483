import { advertisements, routerAddress, type Dhcp6Offer } from '../runtime/network-api.ts'
import { nameOf } from './dhcp.ts'
import { ipv6Bytes } from './ipv6.ts'

/** The longest that a router may promise to stay (RFC 4861). Each advertisement renews it. */
const lifetimeSeconds = 9000
const forever = 0xffff_ffff
const allNodes = ipv6Bytes('ff02::1')
const router = ipv6Bytes(routerAddress)
/** Addresses, and everything else, come by DHCPv6. */
const managed = 0xc0
const icmp = 58
/** The minimum MTU of IPv6. */
const maxPacketBytes = 1280
const headBytes = 40
/** Up to the options. */
const advertisementBytes = 16

/**
 * The UDP payload that the VXLAN device of the plugin `routed` turns into a router advertisement for the guest
 * (RFC 4861, RFC 8106): a VXLAN header (RFC 7348), an Ethernet frame to all nodes, an IPv6 packet. No prefix is on the
 * link, since the guest has a single address, and no link-layer address of the router, for which the guest asks.
 */
export function advertisementOf(offer: Dhcp6Offer): Buffer {
  const vxlan = Buffer.alloc(8)
  vxlan[0] = 0x08
  vxlan.writeUIntBE(advertisements.vni, 4, 3)
  const frame = Buffer.from('333300000001020000005654' + '86dd', 'hex')
  const packet = packetOf(messageOf(offer))
  return Buffer.concat([vxlan, frame, packet])
}

function messageOf({ mtu, dns = [], search = [] }: Dhcp6Offer): Buffer {
  const message = Buffer.alloc(advertisementBytes)
  message.set([134, 0, 0, 0, 64, managed])
  message.writeUInt16BE(lifetimeSeconds, 6)
  const options = [
    ...(mtu === undefined ? [] : [optionOf(5, mtu, [])]),
    ...(dns.length === 0
      ? []
      : [
          optionOf(
            25,
            forever,
            dns.flatMap((one) => [...ipv6Bytes(one)]),
          ),
        ]),
    ...(search.length === 0 ? [] : [optionOf(31, forever, search.flatMap(nameOf))]),
  ]
  // The most important ones first: those for which there is no room are left out.
  let bytes: Buffer = message
  for (const option of options)
    if (headBytes + bytes.length + option.length <= maxPacketBytes) bytes = Buffer.concat([bytes, option])
  return bytes
}

/** Each has a number of 32 bits first, and is padded to a multiple of 8 bytes. */
function optionOf(type: number, number: number, value: readonly number[]): Buffer {
  const bytes = Buffer.alloc(Math.ceil((8 + value.length) / 8) * 8)
  bytes.set([type, bytes.length / 8])
  bytes.writeUInt32BE(number, 4)
  bytes.set(value, 8)
  return bytes
}

function packetOf(message: Buffer): Buffer {
  const head = Buffer.alloc(headBytes)
  head[0] = 0x60
  head.writeUInt16BE(message.length, 4)
  // Routers do not forward it: no host accepts one with a lower limit.
  head.set([icmp, 255], 6)
  head.set(router, 8)
  head.set(allNodes, 24)
  message.writeUInt16BE(checksumOf(message), 2)
  return Buffer.concat([head, message])
}

/** Of an ICMPv6 message of even length whose checksum is still 0, from the router to all nodes. */
function checksumOf(message: Buffer): number {
  const covered = Buffer.concat([
    router,
    allNodes,
    Buffer.from([0, 0, message.length >> 8, message.length & 0xff, 0, 0, 0, icmp]),
    message,
  ])
  let sum = 0
  for (let at = 0; at < covered.length; at += 2) sum += covered.readUInt16BE(at)
  while (sum > 0xffff) sum = (sum & 0xffff) + (sum >>> 16)
  return ~sum & 0xffff
}
