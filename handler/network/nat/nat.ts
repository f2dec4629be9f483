import { podSideAddress, type NetworkResult, type TapInterface } from '../../../runtime/network-api.ts'
import type { PodLink } from '../pod-link.ts'

/** The user of QEMU in launcher pods. */
const owner = 107
/** Of the tables of nftables. */
const ruleset = 'virtset'

/**
 * The same in every guest: four addresses, so that few others cannot be reached. A guest with an address of 169.254.0.0/16
 * would take it for one that is not routed.
 */
const guest = { ip: '10.0.2.2', prefix: 30, gateway: '10.0.2.1' } as const

/** @throws if the pod has no IPv4 address */
export function resultOf({ mtu, ipv4 }: PodLink): NetworkResult {
  return { ips: [addressOf(ipv4)], dhcp: { ...guest, mtu } }
}

function addressOf(ipv4: PodLink['ipv4']): string {
  if (ipv4 === undefined) throw new Error('the pod has no IPv4 address, which the plugin nat translates; use routed')
  return ipv4.ip
}

/**
 * Connects the guest, which has a private address, behind the address of the pod. Every step can be repeated while the
 * guest runs.
 *
 * What comes for the address of the pod goes to the guest, unless it belongs to a connection that the pod itself has
 * opened, such as QEMU's to a disk: only the first packet of a connection is translated by a rule. The guest can use only
 * its own MAC and IP address, and reaches nothing in the pod but the DHCP server and what the pod itself has connected to
 * it with. The pod forwards, and its neighbors can send it any frame, so nothing passes between them and the guest that
 * was not translated: packets of no connection are not, nor are those for another interface of the pod.
 */
export function addScript({ dev, mac, queues }: TapInterface, { name, mtu, ipv4 }: PodLink): string {
  return [
    'set -eu',
    // Read-only in a container; this is a mount namespace of its own.
    '[ -w /proc/sys/net/ipv4/ip_forward ] || mount -o remount,rw /proc/sys',
    `ip link show dev ${dev} >/dev/null 2>&1 ||`,
    `  ip tuntap add name ${dev} mode tap user ${owner} group ${owner} vnet_hdr${queues > 1 ? ' multi_queue' : ''}`,
    // The guest could reach the pod by an IPv6 address of the tap that the rules do not know.
    `ip link set dev ${dev} addrgenmode none`,
    // Before the guest can send.
    "nft -f - <<'END'",
    rulesOf(dev, mac, name, addressOf(ipv4)),
    'END',
    'echo 1 > /proc/sys/net/ipv4/ip_forward',
    // A guest that connects to the address of its pod is sent back to itself.
    `echo 0 > /proc/sys/net/ipv4/conf/${dev}/send_redirects`,
    `ip address replace ${guest.gateway}/${guest.prefix} dev ${dev}`,
    // From which the launcher connects to its guest.
    `ip address replace ${podSideAddress}/32 dev ${dev} scope link`,
    `ip link set dev ${dev} mtu ${mtu} up`,
    `ip neigh replace ${guest.ip} lladdr ${mac} dev ${dev} nud permanent`,
    // The launcher's DHCP server answers by broadcast.
    `ip route replace 255.255.255.255/32 dev ${dev} src ${guest.gateway}`,
    '',
  ].join('\n')
}

/** Each declared before it is deleted, so that they can be replaced in one transaction, whether they exist or not. */
function rulesOf(dev: string, mac: string, name: string, podIP: string): string {
  const table = (family: string, chains: string) =>
    `table ${family} ${ruleset}\ndelete table ${family} ${ruleset}\ntable ${family} ${ruleset} {\n${chains}\n}`
  return [
    table(
      'ip',
      `  chain arriving {
    type nat hook prerouting priority dstnat
    iifname { "${name}", "${dev}" } ip daddr ${podIP} dnat to ${guest.ip}
  }
  chain launcher {
    type nat hook output priority -100
    ip saddr ${podSideAddress} ip daddr ${podIP} dnat to ${guest.ip}
  }
  chain leaving {
    type nat hook postrouting priority srcnat
    ip saddr ${guest.ip} oifname "${name}" snat to ${podIP}
    ip saddr ${guest.ip} oifname "${dev}" snat to ${guest.gateway}
  }
  chain forwarded {
    type filter hook forward priority filter
    iifname "${dev}" ct state invalid drop
    iifname "${dev}" oifname != { "${name}", "${dev}" } drop
    oifname "${dev}" ct state established,related accept
    oifname "${dev}" ct status dnat accept
    oifname "${dev}" drop
  }
  chain pod {
    type filter hook input priority filter
    iifname != { "lo", "${dev}" } ip daddr { ${guest.gateway}, ${podSideAddress} } drop
    iifname != "tap*" udp dport 67 drop
    iifname "${dev}" ct state established,related accept
    iifname "${dev}" udp sport 68 udp dport 67 accept
    iifname "${dev}" drop
  }`,
    ),
    table(
      'netdev',
      `  chain guest {
    type filter hook ingress device "${dev}" priority 0
    policy drop
    ether saddr != ${mac} drop
    arp saddr ip { 0.0.0.0, ${guest.ip} } accept
    ip saddr ${guest.ip} accept
    ip saddr 0.0.0.0 udp sport 68 udp dport 67 accept
  }`,
    ),
  ].join('\n')
}

/** Fails if a part of it is missing. */
export function checkScript({ dev }: TapInterface): string {
  const failIf = (condition: string, message: string) => `${condition} || { echo "${message}" >&2; exit 1; }`
  return [
    'set -eu',
    failIf(`[ -n "$(ip link show dev ${dev} up)" ]`, `${dev} is not up`),
    failIf(`[ -n "$(ip address show dev ${dev} to ${guest.gateway})" ]`, `${dev} has no address ${guest.gateway}`),
    `nft list table ip ${ruleset} >/dev/null`,
    `nft list table netdev ${ruleset} >/dev/null`,
    '',
  ].join('\n')
}

/** The guest never sends without the rules. Nothing of it fails if it is repeated. */
export const delScript = ({ dev }: TapInterface): string =>
  [
    `ip link del dev ${dev} 2>/dev/null || :`,
    ...['ip', 'netdev'].map((family) => `nft delete table ${family} ${ruleset} 2>/dev/null || :`),
    '',
  ].join('\n')
