import { isIP, isIPv4 } from 'node:net'
import { isRecord } from '../../../api/schema.ts'
import type { NetworkResult, TapInterface } from '../../../runtime/network-api.ts'

/** An interface of the pod in a network beside its own. */
export interface Network {
  readonly name: string
  readonly mac: string
  readonly mtu: number
  /** Those that IPAM has given to it, which are the guest's: ADDRESS/PREFIX. */
  readonly addresses: readonly string[]
}

/** The user of QEMU in launcher pods. */
const owner = 107
/** Of the nftables table of a tap, and of the alias of an interface of the pod. */
const prefix = 'virtset'
/** IPAM gives one of each family, and an alias has room for five. */
const mostAddresses = 4
/** The routing table of the first interface; each has its own. */
const firstTable = 22_200

/**
 * The interface of the pod that connects a tap.
 * @param links the output of `ip -json link`
 * @param addresses the output of `ip -json address`
 * @throws if there is none
 */
export function findNetwork({ dev, podInterface: name }: TapInterface, links: unknown, addresses: unknown): Network {
  if (name === undefined) throw new Error(`spec.taps states no network for ${dev}`)
  const [link, addressed = {}] = [links, addresses].map((list) => recordsOf(list).find(({ ifname }) => ifname === name))
  if (link === undefined)
    throw new Error(`the pod has no interface ${name}; Multus, which creates it, must be installed on the node`)
  const { address: mac, mtu, ifalias } = link
  if (typeof mac !== 'string' || typeof mtu !== 'number') throw new Error(`${name} is not an Ethernet interface`)
  return { name, mac, mtu, addresses: addressesOf(addressed['addr_info'], ifalias) }
}

/** Once they are removed from the interface, its alias has them. */
function addressesOf(infos: unknown, alias: unknown): string[] {
  const given = recordsOf(infos).filter(({ scope }) => scope === 'global')
  const [owner, ...kept] = typeof alias === 'string' ? alias.split(' ') : []
  const found = given.length > 0 ? given.map(({ local, prefixlen }) => `${String(local)}/${String(prefixlen)}`) : kept
  return given.length > 0 || owner === prefix ? found.filter(isAddress).slice(0, mostAddresses) : []
}

function isAddress(address: string): boolean {
  const [ip = '', length = '', ...rest] = address.split('/')
  return isIP(ip) !== 0 && /^\d{1,3}$/.test(length) && Number(length) <= (isIPv4(ip) ? 32 : 128) && rest.length === 0
}

const recordsOf = (value: unknown) => (Array.isArray(value) ? value.filter(isRecord) : [])

const ipOf = (address: string): string => address.split('/')[0] ?? ''

const ipv4Of = ({ addresses }: Network): string | undefined => addresses.find((address) => isIPv4(ipOf(address)))

/** Without a gateway and DNS servers: those of the network of the pod remain the guest's. */
export function resultOf({ index }: TapInterface, network: Network): NetworkResult {
  const ipv4 = ipv4Of(network)
  const offered = { dns: [], search: [], mtu: network.mtu, server: serverOf(index) }
  return {
    ips: network.addresses.map(ipOf),
    ...(ipv4 === undefined ? {} : { dhcp: { ip: ipOf(ipv4), prefix: Number(ipv4.split('/')[1]), ...offered } }),
  }
}

/** The address from which the launcher answers on a tap. No other host has it: link-local addresses are not routed. */
const serverOf = (index: number): string => `169.254.${87 + ((index + 1) >> 8)}.${(index + 1) & 255}`

/**
 * Makes the guest a host of the network, in the place of the pod: what arrives goes to the guest, and what the guest
 * sends leaves, before the pod's own kernel sees it. Every step can be repeated while the guest runs.
 *
 * The guest can use only its own MAC address, and takes no part in the protocols between bridges. If IPAM has given it an
 * IPv4 address, its DHCP client reaches the launcher instead of the network.
 */
export function addScript({ dev, mac, queues, index }: TapInterface, network: Network): string {
  const { name, mtu, addresses } = network
  const isServed = ipv4Of(network) !== undefined
  const multi = queues > 1 ? ' multi_queue' : ''
  return [
    'set -eu',
    `ip link show dev ${dev} >/dev/null 2>&1 ||`,
    `  ip tuntap add name ${dev} mode tap user ${owner} group ${owner} vnet_hdr${multi}`,
    // The pod has no address there: its own connections would leave, and their responses reach the guest.
    ...[dev, name].map((link) => `ip link set dev ${link} addrgenmode none`),
    ...(addresses.length === 0 ? [] : [`ip link set dev ${name} alias '${[prefix, ...addresses].join(' ')}'`]),
    `ip address flush dev ${name}`,
    // A network that delivers by MAC address must know that of the guest. Some do not have their own set again.
    ...(network.mac === mac ? [] : [`ip link set dev ${name} address ${mac}`]),
    // A macvlan otherwise has only the multicast groups of the pod.
    `ip link set dev ${name} allmulticast on up`,
    "nft -f - <<'END'",
    rulesOf(dev, mac, name, isServed),
    'END',
    // After the rules, so that no frame of the guest reaches the pod itself.
    `ip link set dev ${dev} mtu ${mtu} up`,
    ...(isServed ? serverSteps(dev, serverOf(index), firstTable + index) : []),
    '',
  ].join('\n')
}

/** What the launcher sends from its address on the tap leaves there: other taps have a broadcast address, too. */
const serverSteps = (dev: string, server: string, table: number): string[] => [
  `ip address replace ${server}/32 dev ${dev} scope link`,
  `ip route replace 255.255.255.255/32 dev ${dev} src ${server} table ${table}`,
  `[ -n "$(ip rule show from ${server})" ] || ip rule add pref 30 from ${server} lookup ${table}`,
]

/**
 * Frames with which switches agree on their topology and VLANs, wherever they are sent to: a switch can disable the port
 * of a node from which they arrive. IEEE's and those of registration (MVRP), Cisco's (CDP, VTP, UDLD, PVST+), and by
 * their types LLDP, pause frames and link aggregation. `ether type` is that of a VLAN tag, and `meta protocol` what
 * follows the tag: to many switches, a frame of VLAN 0 has none.
 */
const protocolsOfSwitches = [
  'ether daddr & ff:ff:ff:ff:ff:f0 == 01:80:c2:00:00:00',
  'ether daddr & ff:ff:ff:ff:ff:f0 == 01:80:c2:00:00:20',
  'ether daddr { 01:00:0c:cc:cc:cc, 01:00:0c:cc:cc:cd }',
  'ether type { 0x8808, 0x8809, 0x88cc }',
  'meta protocol { 0x8808, 0x8809, 0x88cc }',
]

/** Declared before they are deleted, so that they can be replaced in one transaction, whether they exist or not. */
function rulesOf(dev: string, mac: string, name: string, isServed: boolean): string {
  const [table, ofPod] = [`table netdev ${prefix}-${dev}`, `table ip ${prefix}-${dev}`]
  const toLauncher = `ether saddr ${mac} ip saddr 0.0.0.0 ip daddr 255.255.255.255 udp sport 68 udp dport 67 accept`
  return `${ofPod}
delete ${ofPod}
${ofPod} {
  chain pod {
    type filter hook input priority filter
    iifname != "tap*" udp dport 67 drop
  }
}
${table}
delete ${table}
${table} {
  chain guest {
    type filter hook ingress device "${dev}" priority 0
    policy drop
    ${protocolsOfSwitches.join(' drop\n    ')} drop
    ${isServed ? toLauncher : ''}
    ether saddr ${mac} fwd to "${name}"
  }
  chain network {
    type filter hook ingress device "${name}" priority 0
    policy drop
    fwd to "${dev}"
  }
}`
}

/** Fails if a part of it is missing. */
export function checkScript({ dev }: TapInterface, { name }: Network): string {
  return [
    'set -eu',
    ...[dev, name].map(
      (link) => `[ -n "$(ip link show dev ${link} up)" ] || { echo '${link} is not up' >&2; exit 1; }`,
    ),
    `nft list table netdev ${prefix}-${dev} >/dev/null`,
    '',
  ].join('\n')
}

/** The guest never sends without the rules. Nothing of it fails if it is repeated. */
export const delScript = ({ dev, index }: TapInterface): string =>
  [
    `ip link del dev ${dev} 2>/dev/null || :`,
    ...['netdev', 'ip'].map((family) => `nft delete table ${family} ${prefix}-${dev} 2>/dev/null || :`),
    `ip rule del pref 30 from ${serverOf(index)} 2>/dev/null || :`,
    '',
  ].join('\n')
