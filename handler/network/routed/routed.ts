import { isIPv4 } from 'node:net'
import { isRecord } from '../../../api/schema.ts'
import { podSideAddress, type DhcpOffer, type TapInterface } from '../../../runtime/network-api.ts'

/** The network of a pod, as `ip -json` describes it. */
export interface PodLink {
  /** The name of the interface that has the address of the pod. */
  readonly name: string
  readonly ip: string
  readonly prefix: number
  readonly mtu: number
  readonly gateway?: string
}

/** The user of QEMU in launcher pods. */
const owner = 107
/** The letters VT: marks, the routing table and the names of this plugin in a pod's network. */
const mark = '0x5654'
const table = 22_100
const ruleset = 'virtset'

/** As names of interfaces are used in scripts: the kernel allows more. */
const linkForm = /^[a-zA-Z0-9_.-]{1,15}$/

/**
 * The interface that has the first IPv4 address of the pod.
 * @param addresses the output of `ip -json -4 address`
 * @param routes the output of `ip -json -4 route show default`
 * @throws if there is none
 */
export function findPodLink(podIPs: readonly string[], addresses: unknown, routes: unknown): PodLink {
  const ip = podIPs.find((one) => isIPv4(one))
  if (ip === undefined) throw new Error('the pod has no IPv4 address; the plugin routed does not support IPv6 yet')
  for (const link of listOf(addresses)) {
    const { ifname: name, mtu, addr_info: infos } = link
    const info = listOf(infos).find(({ local }) => local === ip)
    if (info === undefined) continue
    const prefix = info['prefixlen']
    if (typeof name !== 'string' || !linkForm.test(name) || typeof mtu !== 'number' || typeof prefix !== 'number')
      throw new Error(`the interface of ${ip} has no valid name, MTU or prefix`)
    const gateway = listOf(routes).find(({ dev }) => dev === name)?.['gateway']
    const hasGateway = typeof gateway === 'string' && isIPv4(gateway)
    return { name, ip, prefix, mtu, ...(hasGateway ? { gateway } : {}) }
  }
  throw new Error(`no interface of the pod has its address ${ip}`)
}

export const offerOf = ({ ip, prefix, gateway, mtu }: PodLink): DhcpOffer => ({
  ip,
  prefix,
  mtu,
  ...(gateway === undefined ? {} : { gateway }),
})

/**
 * Connects the guest with the address of the pod, without address translation. Every step can be repeated while the
 * guest runs.
 *
 * What comes for the address of the pod goes to the guest, unless it belongs to a connection that the pod itself has
 * opened, such as QEMU's to a disk: these have a mark. The pod answers ARP requests of the guest for every address that
 * it can route to. The guest can use only its own MAC and IP addresses, and reaches nothing in the pod but the DHCP
 * server and what the pod itself has connected to it with.
 */
export function addScript({ dev, mac, queues }: TapInterface, { name, ip, mtu }: PodLink): string {
  const sysctls = [
    'net/ipv4/ip_forward=1',
    `net/ipv4/conf/${dev}/proxy_arp=1`,
    `net/ipv4/conf/${dev}/accept_local=1`,
    `net/ipv4/conf/${dev}/rp_filter=0`,
    `net/ipv4/conf/${dev}/send_redirects=0`,
    `net/ipv4/conf/${name}/rp_filter=0`,
    'net/ipv4/conf/all/rp_filter=0',
    `net/ipv4/neigh/${dev}/proxy_delay=0`,
  ]
  return [
    'set -eu',
    // Read-only in a container; this is a mount namespace of its own.
    '[ -w /proc/sys/net/ipv4/ip_forward ] || mount -o remount,rw /proc/sys',
    `ip link show dev ${dev} >/dev/null 2>&1 ||`,
    `  ip tuntap add name ${dev} mode tap user ${owner} group ${owner} vnet_hdr${queues > 1 ? ' multi_queue' : ''}`,
    // Otherwise the guest would reach the pod by an IPv6 address of the tap.
    `ip link set dev ${dev} addrgenmode none`,
    `ip link set dev ${dev} mtu ${mtu} up`,
    ...sysctls.map((sysctl) => `echo ${sysctl.split('=')[1]} > /proc/sys/${sysctl.split('=')[0]}`),
    `ip address replace ${podSideAddress}/32 dev ${dev} scope link`,
    // Otherwise the pod would ask for it by ARP with the guest's own address as the sender.
    `ip neigh replace ${ip} lladdr ${mac} dev ${dev} nud permanent`,
    `ip route replace ${ip} dev ${dev} table ${table}`,
    // The launcher's DHCP server answers by broadcast. A guest ignores packets from its own address.
    `ip route replace 255.255.255.255/32 dev ${dev} src ${podSideAddress}`,
    // The rule for local addresses moves behind the others. It is never absent meanwhile.
    has(40, `ip rule add pref 40 from ${podSideAddress} to ${ip} lookup ${table}`),
    has(50, `ip rule add pref 50 fwmark ${mark} lookup ${table}`),
    has(100, 'ip rule add pref 100 from all lookup local'),
    '[ -z "$(ip rule show pref 0)" ] || ip rule del pref 0',
    "nft -f - <<'END'",
    rulesOf(dev, mac, name, ip),
    'END',
    '',
  ].join('\n')
}

const has = (preference: number, add: string): string => `[ -n "$(ip rule show pref ${preference})" ] || ${add}`

/**
 * Declared before they are deleted, so that they can be replaced in one transaction, whether they exist or not. Of the
 * network only the guest reaches the DHCP server: broadcasts of other pods would use up the responses that it may get.
 */
function rulesOf(dev: string, mac: string, name: string, ip: string): string {
  return `table ip ${ruleset}
delete table ip ${ruleset}
table ip ${ruleset} {
  chain arriving {
    type filter hook prerouting priority mangle
    iifname "${name}" ip daddr ${ip} ct mark != ${mark} meta mark set ${mark}
  }
  chain leaving {
    type filter hook output priority mangle
    oifname "${name}" ct state new ct mark set ${mark}
  }
  chain pod {
    type filter hook input priority filter
    iifname != "${dev}" udp dport 67 drop
    iifname "${dev}" ct state established,related accept
    iifname "${dev}" udp sport 68 udp dport 67 accept
    iifname "${dev}" drop
  }
}
table netdev ${ruleset}
delete table netdev ${ruleset}
table netdev ${ruleset} {
  chain guest {
    type filter hook ingress device "${dev}" priority 0
    policy drop
    ether saddr != ${mac} drop
    arp saddr ip { 0.0.0.0, ${ip} } accept
    ip saddr ${ip} accept
    ip saddr 0.0.0.0 udp sport 68 udp dport 67 accept
  }
}`
}

/** Fails if a part of it is missing. */
export function checkScript({ dev }: TapInterface, { ip }: PodLink): string {
  return [
    'set -eu',
    `[ -n "$(ip link show dev ${dev} up)" ] || { echo "${dev} is not up" >&2; exit 1; }`,
    `[ -n "$(ip route show table ${table} dev ${dev})" ] || { echo "${ip} has no route to ${dev}" >&2; exit 1; }`,
    ...[40, 50, 100].map(
      (preference) =>
        `[ -n "$(ip rule show pref ${preference})" ] || { echo 'routing rule ${preference} is missing' >&2; exit 1; }`,
    ),
    // It would deliver what comes for the address to the pod instead of the guest.
    `[ -z "$(ip rule show pref 0)" ] || { echo 'routing rule 0 is there again' >&2; exit 1; }`,
    `nft list table ip ${ruleset} >/dev/null`,
    `nft list table netdev ${ruleset} >/dev/null`,
    '',
  ].join('\n')
}

/** Gives the address back to the pod. Nothing of it fails if it is repeated. */
export function delScript({ dev }: TapInterface): string {
  const quiet = (command: string) => `${command} 2>/dev/null || :`
  return [
    '[ -n "$(ip rule show pref 0)" ] || ip rule add pref 0 from all lookup local',
    ...[40, 50, 100].map((preference) => quiet(`ip rule del pref ${preference}`)),
    quiet(`nft delete table ip ${ruleset}`),
    quiet(`nft delete table netdev ${ruleset}`),
    quiet(`ip route flush table ${table}`),
    quiet(`ip link del dev ${dev}`),
    '',
  ].join('\n')
}

function listOf(value: unknown): { readonly [key: string]: unknown }[] {
  return Array.isArray(value) ? value.filter(isRecord) : []
}
