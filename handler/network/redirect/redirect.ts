import { isIP } from 'node:net'
import { isRecord } from '../../../api/schema.ts'
import type { TapInterface } from '../../../runtime/network-api.ts'

/** An interface of the pod in a network beside its own. */
export interface Network {
  readonly name: string
  readonly mac: string
  readonly mtu: number
  /** Those that IPAM has given to it, which are the guest's. */
  readonly ips: readonly string[]
}

/** The user of QEMU in launcher pods. */
const owner = 107
/** Of the nftables table of a tap, and of the alias of an interface of the pod. */
const prefix = 'virtset'
/** IPAM gives one of each family, and an alias has room for six. */
const mostAddresses = 4

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
  return { name, mac, mtu, ips: addressesOf(addressed['addr_info'], ifalias) }
}

/** Once they are removed from the interface, its alias has them. */
function addressesOf(infos: unknown, alias: unknown): string[] {
  const given = recordsOf(infos).filter(({ scope }) => scope === 'global')
  const [owner, ...kept] = typeof alias === 'string' ? alias.split(' ') : []
  const found = given.length > 0 ? given.map(({ local }) => local) : owner === prefix ? kept : []
  return found.filter((ip): ip is string => typeof ip === 'string' && isIP(ip) !== 0).slice(0, mostAddresses)
}

const recordsOf = (value: unknown) => (Array.isArray(value) ? value.filter(isRecord) : [])

/**
 * Makes the guest a host of the network, in the place of the pod: what arrives goes to the guest, and what the guest
 * sends leaves, before the pod's own kernel sees it. Every step can be repeated while the guest runs.
 *
 * The guest can use only its own MAC address, and takes no part in the protocols between bridges.
 */
export function addScript({ dev, mac, queues }: TapInterface, network: Network): string {
  const { name, mtu, ips } = network
  const multi = queues > 1 ? ' multi_queue' : ''
  return [
    'set -eu',
    `ip link show dev ${dev} >/dev/null 2>&1 ||`,
    `  ip tuntap add name ${dev} mode tap user ${owner} group ${owner} vnet_hdr${multi}`,
    // The pod has no address there: its own connections would leave, and their responses reach the guest.
    ...[dev, name].map((link) => `ip link set dev ${link} addrgenmode none`),
    ...(ips.length === 0 ? [] : [`ip link set dev ${name} alias '${[prefix, ...ips].join(' ')}'`]),
    `ip address flush dev ${name}`,
    // A network that delivers by MAC address must know that of the guest. Some do not have their own set again.
    ...(network.mac === mac ? [] : [`ip link set dev ${name} address ${mac}`]),
    // A macvlan otherwise has only the multicast groups of the pod.
    `ip link set dev ${name} allmulticast on up`,
    "nft -f - <<'END'",
    rulesOf(dev, mac, name),
    'END',
    // After the rules, so that no frame of the guest reaches the pod itself.
    `ip link set dev ${dev} mtu ${mtu} up`,
    '',
  ].join('\n')
}

/** Declared before it is deleted, so that it can be replaced in one transaction, whether it exists or not. */
function rulesOf(dev: string, mac: string, name: string): string {
  const table = `table netdev ${prefix}-${dev}`
  return `${table}
delete ${table}
${table} {
  chain guest {
    type filter hook ingress device "${dev}" priority 0
    policy drop
    ether daddr & ff:ff:ff:ff:ff:f0 == 01:80:c2:00:00:00 drop
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

/** Nothing of it fails if it is repeated. */
export const delScript = ({ dev }: TapInterface): string =>
  [`nft delete table netdev ${prefix}-${dev} 2>/dev/null || :`, `ip link del dev ${dev} 2>/dev/null || :`, ''].join(
    '\n',
  )
