import {
  advertisements,
  podSideAddress,
  routerAddress,
  type NetworkResult,
  type TapInterface,
} from '../../../runtime/network-api.ts'
import type { PodLink } from '../pod-link.ts'

/** The user of QEMU in launcher pods. */
const owner = 107
/** The letters VT: marks, the routing table and the names of this plugin in a pod's network. */
const mark = '0x5654'
const table = 22_100
const ruleset = 'virtset'
const advertiser = 'virtset-ra'

export function resultOf({ mtu, ipv4, ipv6 }: PodLink): NetworkResult {
  return {
    ips: [ipv4, ipv6].flatMap((family) => family?.ip ?? []),
    ...(ipv4 && { dhcp: { ...ipv4, mtu } }),
    ...(ipv6 && { dhcp6: { ...ipv6, mtu } }),
  }
}

/**
 * Connects the guest with the addresses of the pod, without address translation. Every step can be repeated while the
 * guest runs.
 *
 * What comes for an address of the pod goes to the guest, unless it belongs to a connection that the pod itself has
 * opened, such as QEMU's to a disk: these have a mark. The pod answers ARP requests of the guest for every address that
 * it can route to, and is its default router by IPv6. The guest can use only its own MAC and IP addresses, and reaches
 * nothing in the pod but the DHCP servers and what the pod itself has connected to it with.
 */
export function addScript({ dev, mac, queues }: TapInterface, link: PodLink): string {
  return [
    'set -eu',
    // Read-only in a container; this is a mount namespace of its own.
    '[ -w /proc/sys/net/ipv4/ip_forward ] || mount -o remount,rw /proc/sys',
    `ip link show dev ${dev} >/dev/null 2>&1 ||`,
    `  ip tuntap add name ${dev} mode tap user ${owner} group ${owner} vnet_hdr${queues > 1 ? ' multi_queue' : ''}`,
    // The guest could reach the pod by an IPv6 address of the tap that the rules do not know.
    `ip link set dev ${dev} addrgenmode none`,
    ...(link.ipv6 === undefined ? [] : advertiserSteps),
    // Before the guest can send.
    "nft -f - <<'END'",
    rulesOf(dev, mac, link),
    'END',
    `ip link set dev ${dev} mtu ${link.mtu} up`,
    ...(link.ipv4 === undefined ? [] : ipv4Steps(dev, mac, link.name, link.ipv4.ip)),
    ...(link.ipv6 === undefined ? [] : ipv6Steps(dev, mac, link.name, link.ipv6.ip)),
    '',
  ].join('\n')
}

function ipv4Steps(dev: string, mac: string, name: string, ip: string): string[] {
  return [
    ...sysctlSteps({
      'ipv4/ip_forward': 1,
      [`ipv4/conf/${dev}/proxy_arp`]: 1,
      [`ipv4/conf/${dev}/accept_local`]: 1,
      [`ipv4/conf/${dev}/rp_filter`]: 0,
      [`ipv4/conf/${dev}/send_redirects`]: 0,
      [`ipv4/conf/${name}/rp_filter`]: 0,
      'ipv4/conf/all/rp_filter': 0,
      [`ipv4/neigh/${dev}/proxy_delay`]: 0,
    }),
    `ip address replace ${podSideAddress}/32 dev ${dev} scope link`,
    ...routeSteps('-4', dev, mac, ip, podSideAddress),
    // The launcher's DHCP server answers by broadcast. A guest ignores packets from its own address.
    `ip route replace 255.255.255.255/32 dev ${dev} src ${podSideAddress}`,
  ]
}

/** The rules name it. */
const advertiserSteps = [
  `ip link show dev ${advertiser} >/dev/null 2>&1 ||`,
  `  ip link add name ${advertiser} type vxlan id ${advertisements.vni} dstport ${advertisements.port} local 127.0.0.1 nolearning`,
  // The pod's own packets would be taken for solicitations.
  `echo 1 > /proc/sys/net/ipv6/conf/${advertiser}/disable_ipv6`,
]

/** The address stays that of the pod, so the pod itself answers the neighbor solicitations of its node. */
function ipv6Steps(dev: string, mac: string, name: string, ip: string): string[] {
  const acceptRa = `/proc/sys/net/ipv6/conf/${name}/accept_ra`
  return [
    // A host that forwards drops the routes that a router has advertised to it, unless accept_ra is 2.
    `[ "$(cat ${acceptRa})" != 1 ] || echo 2 > ${acceptRa}`,
    ...sysctlSteps({
      'ipv6/conf/all/forwarding': 1,
      [`ipv6/conf/${dev}/disable_ipv6`]: 0,
      [`ipv6/conf/${dev}/accept_ra`]: 0,
    }),
    `ip -6 address replace ${routerAddress}/64 dev ${dev} nodad`,
    ...routeSteps('-6', dev, mac, ip, routerAddress),
    `ip link set dev ${advertiser} up`,
    `bridge fdb append 00:00:00:00:00:00 dev ${advertiser} dst 127.255.255.255 port ${advertisements.launcherPort}`,
  ]
}

const sysctlSteps = (values: { readonly [name: string]: number }): string[] =>
  Object.entries(values).map(([name, value]) => `echo ${value} > /proc/sys/net/${name}`)

function routeSteps(family: '-4' | '-6', dev: string, mac: string, ip: string, podSide: string): string[] {
  const has = (preference: number, rule: string) =>
    `[ -n "$(ip ${family} rule show pref ${preference})" ] || ip ${family} rule add pref ${preference} ${rule}`
  return [
    // Otherwise the pod would ask for it with the guest's own address as the sender.
    `ip neigh replace ${ip} lladdr ${mac} dev ${dev} nud permanent`,
    `ip ${family} route replace ${ip} dev ${dev} table ${table}`,
    // The rule for local addresses moves behind the others. It is never absent meanwhile.
    has(40, `from ${podSide} to ${ip} lookup ${table}`),
    has(50, `fwmark ${mark} lookup ${table}`),
    has(100, 'from all lookup local'),
    `[ -z "$(ip ${family} rule show pref 0)" ] || ip ${family} rule del pref 0`,
  ]
}

/** Each declared before it is deleted, so that they can be replaced in one transaction, whether they exist or not. */
function rulesOf(dev: string, mac: string, link: PodLink): string {
  const { name, ipv4, ipv6 } = link
  return [
    tableOf('ip', [...(ipv4 ? [podChains(name, 'ip', ipv4.ip)] : []), ipv4PodChain(dev)]),
    ...(ipv6 ? [tableOf('ip6', [podChains(name, 'ip6', ipv6.ip), ipv6PodChain(dev)])] : []),
    tableOf('netdev', guestChains(dev, mac, link)),
  ].join('\n')
}

const tableOf = (family: string, parts: readonly string[]): string =>
  `table ${family} ${ruleset}\ndelete table ${family} ${ruleset}\ntable ${family} ${ruleset} {\n${parts.join('\n')}\n}`

const neighborTypes = 'nd-neighbor-solicit, nd-neighbor-advert'
const routerTypes = 'nd-router-advert, nd-redirect'
/** Neighbors and routers of the pod ask for it, and answer it, at its address. */
const exceptNeighbors = `    icmpv6 type { ${neighborTypes}, ${routerTypes} } accept\n`

const podChains = (name: string, family: 'ip' | 'ip6', ip: string): string => `  chain arriving {
    type filter hook prerouting priority mangle
${family === 'ip6' ? exceptNeighbors : ''}    iifname "${name}" ${family} daddr ${ip} ct mark != ${mark} meta mark set ${mark}
  }
  chain leaving {
    type filter hook output priority mangle
    oifname "${name}" ct state new ct mark set ${mark}
  }`

/**
 * Of the network only the guest reaches the DHCP servers: broadcasts of other pods would use up the responses that it
 * may get. Only the pod itself reaches the port of advertisements. A neighbor can send the pod a frame for the address of
 * the tap, at which the processes of the pod would answer.
 */
const ipv4PodChain = (dev: string): string => `  chain pod {
    type filter hook input priority filter
    iifname != "lo" udp dport ${advertisements.port} drop
    iifname != "tap*" udp dport 67 drop
    iifname != { "lo", "${dev}" } ip daddr ${podSideAddress} drop
    iifname "${dev}" ct state established,related accept
    iifname "${dev}" udp sport 68 udp dport 67 accept
    iifname "${dev}" drop
  }`

const ipv6PodChain = (dev: string): string => `  chain pod {
    type filter hook input priority filter
    iifname != "${dev}" udp dport 547 drop
    iifname "${dev}" ct state established,related accept
    iifname "${dev}" icmpv6 type { ${neighborTypes} } accept
    iifname "${dev}" ip6 saddr fe80::/10 udp sport 546 udp dport 547 accept
    iifname "${dev}" drop
  }`

/**
 * What the guest may send, and that the launcher may send nothing to it but advertisements. The node has one table of
 * neighbors for all pods: with a few link-local addresses, a guest cannot fill it by what it sends from. What it sends to
 * counts as for any pod.
 */
function guestChains(dev: string, mac: string, { ipv4, ipv6 }: PodLink): string[] {
  const chain = (name: string, device: string, rules: readonly string[]) =>
    `  chain ${name} {\n    ${[`type filter hook ingress device "${device}" priority 0`, 'policy drop', ...rules].join('\n    ')}\n  }`
  const guest = chain('guest', dev, [
    `ether saddr != ${mac} drop`,
    ...(ipv4 ? ipv4GuestRules(ipv4.ip) : []),
    ...(ipv6 ? ipv6GuestRules(ipv6.ip) : []),
  ])
  if (!ipv6) return [guest]
  const set = '  set link_local {\n    type ipv6_addr; size 8; flags dynamic,timeout; timeout 10m\n  }'
  const advertise = `ip6 saddr ${routerAddress} icmpv6 type nd-router-advert fwd to "${dev}"`
  return [set, guest, chain('launcher', advertiser, [advertise])]
}

const ipv4GuestRules = (ip: string): string[] => [
  // Before it uses its address, a guest asks whether another host has it. The pod would answer.
  `arp daddr ip ${ip} drop`,
  `arp saddr ip { 0.0.0.0, ${ip} } accept`,
  `ip saddr ${ip} accept`,
  'ip saddr 0.0.0.0 udp sport 68 udp dport 67 accept',
]

const ipv6GuestRules = (ip: string): string[] => [
  `icmpv6 type nd-router-solicit limit rate 10/second burst 10 packets dup to "${advertiser}"`,
  `icmpv6 type { ${routerTypes} } drop`,
  `ip6 saddr ${routerAddress} drop`,
  `ip6 saddr ${ip} accept`,
  'ip6 saddr fe80::/10 update @link_local { ip6 saddr } accept',
  // To detect that another host has the address.
  'ip6 saddr :: icmpv6 type nd-neighbor-solicit accept',
]

/** Fails if a part of it is missing. */
export function checkScript({ dev }: TapInterface, { ipv4, ipv6 }: PodLink): string {
  const failIf = (condition: string, message: string) => `${condition} || { echo "${message}" >&2; exit 1; }`
  const family = (option: '-4' | '-6', ip: string) => {
    const prefix = option === '-4' ? '' : 'IPv6 '
    return [
      failIf(`[ -n "$(ip ${option} route show table ${table} dev ${dev})" ]`, `${ip} has no route to ${dev}`),
      ...[40, 50, 100].map((preference) =>
        failIf(
          `[ -n "$(ip ${option} rule show pref ${preference})" ]`,
          `${prefix}routing rule ${preference} is missing`,
        ),
      ),
      // It would deliver what comes for the address to the pod instead of the guest.
      failIf(`[ -z "$(ip ${option} rule show pref 0)" ]`, `${prefix}routing rule 0 is there again`),
      `nft list table ${option === '-4' ? 'ip' : 'ip6'} ${ruleset} >/dev/null`,
    ]
  }
  return [
    'set -eu',
    failIf(`[ -n "$(ip link show dev ${dev} up)" ]`, `${dev} is not up`),
    ...(ipv4 ? family('-4', ipv4.ip) : []),
    ...(ipv6 ? family('-6', ipv6.ip) : []),
    ...(ipv6 ? [failIf(`[ -n "$(ip link show dev ${advertiser} up)" ]`, `${advertiser} is not up`)] : []),
    `nft list table netdev ${ruleset} >/dev/null`,
    '',
  ].join('\n')
}

/** Gives the addresses back to the pod. Nothing of it fails if it is repeated. */
export function delScript({ dev }: TapInterface): string {
  const quiet = (command: string) => `${command} 2>/dev/null || :`
  const family = (option: '-4' | '-6') => [
    `[ -n "$(ip ${option} rule show pref 0)" ] || ${quiet(`ip ${option} rule add pref 0 from all lookup local`)}`,
    ...[40, 50, 100].map((preference) => quiet(`ip ${option} rule del pref ${preference}`)),
    quiet(`ip ${option} route flush table ${table}`),
  ]
  return [
    // First, so that the guest never sends without the rules.
    ...[dev, advertiser].map((link) => quiet(`ip link del dev ${link}`)),
    ...family('-4'),
    ...family('-6'),
    ...['ip', 'ip6', 'netdev'].map((name) => quiet(`nft delete table ${name} ${ruleset}`)),
    '',
  ].join('\n')
}
