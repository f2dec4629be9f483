import { isIP, isIPv4, isIPv6 } from 'node:net'
import { isRecord } from '../api/schema.ts'
import { shownLine } from './shown-text.ts'

/**
 * The contract between the handler and the network agent of its node: HTTP and JSON over a unix socket that only root
 * can reach.
 *
 *     POST /add    NetworkRequest     200 NetworkResult | 422 {error}: the plugin failed | 404 {error}: no such pod
 *     POST /check  NetworkRequest     200 {} | 422 | 404
 *     POST /del    NetworkRequest     200 {}, also if the pod is gone | 422
 *
 * The request names a pod by its uid only. The agent finds the network namespace by itself.
 */
export interface NetworkRequest {
  readonly vm: { readonly namespace: string; readonly name: string; readonly uid: string }
  readonly pod: { readonly uid: string; readonly ips: readonly string[] }
  readonly plugin: string
  readonly interface: TapInterface
}

/** The tap of an interface, and what the interface requires of it. */
export interface TapInterface {
  readonly dev: string
  readonly index: number
  readonly mac: string
  readonly queues: number
  /** The interface of the pod in the network of the tap; absent if that is the network of the pod. */
  readonly podInterface?: string
}

/** What a plugin made. */
export interface NetworkResult {
  /** The addresses at which others reach the guest. */
  readonly ips: readonly string[]
  /** What the launcher answers to the guest's DHCP client; absent if another server answers. */
  readonly dhcp?: DhcpOffer
  /** What the launcher answers by router advertisements and DHCPv6. The plugin has created the link for the former. */
  readonly dhcp6?: Dhcp6Offer
}

export interface DhcpOffer {
  readonly ip: string
  readonly prefix: number
  readonly gateway?: string
  readonly mtu?: number
  /** Those of the pod if absent. */
  readonly dns?: readonly string[]
  readonly search?: readonly string[]
  /** The address of the pod on the tap, from which the launcher answers; any if absent. An older launcher ignores it. */
  readonly server?: string
}

/** The default router is `routerAddress`, on the tap. */
export interface Dhcp6Offer {
  readonly ip: string
  readonly mtu?: number
  /** Those of the pod if absent. */
  readonly dns?: readonly string[]
  readonly search?: readonly string[]
}

export type NetworkCommand = 'add' | 'check' | 'del'

/**
 * How a launcher pod itself reaches a guest that has the address of the pod: by this one, on the tap. No other host has
 * it, since link-local addresses are not routed.
 */
export const podSideAddress = '169.254.86.84'

/** The same by IPv6, and the default router of the guest. */
export const routerAddress = 'fe80::5654'

/**
 * How the launcher, which has no right to send ICMPv6, advertises the router: the plugin `routed` creates a VXLAN device
 * on the loopback device of the pod. What the launcher sends to `port` is a frame for the guest, of which only router
 * advertisements pass; the router solicitations of the guest arrive at `launcherPort`.
 */
export const advertisements = { vni: 22_100, port: 22_100, launcherPort: 22_101 } as const

/** The name of the agent's socket in its directory. */
export const networkSocketName = 'network.sock'

/** The longest request and result in bytes. */
export const maxNetworkBytes = 64 * 1024

const mostAddresses = 16
const uidForm = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/
const nameForm = /^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$/
const devForm = /^tap[0-9a-z]{1,12}$/
const podInterfaceForm = /^net[0-9a-z]{1,12}$/
const macForm = /^[0-9a-f]{2}(:[0-9a-f]{2}){5}$/
const domainForm = /^[a-z0-9_]([-a-z0-9_.]{0,251}[a-z0-9_])?\.?$/i

/** The value violates the contract. */
export class InvalidNetworkMessage extends Error {
  override name = 'InvalidNetworkMessage'
}

/** @throws InvalidNetworkMessage */
export function parseNetworkRequest(value: unknown): NetworkRequest {
  const { vm, pod, plugin, interface: one } = recordOf(value, 'request')
  const { namespace, name, uid } = recordOf(vm, 'vm')
  const { uid: podUID, ips } = recordOf(pod, 'pod')
  const { dev, index, mac, queues, podInterface } = recordOf(one, 'interface')
  return {
    vm: {
      namespace: textOf(namespace, 'vm.namespace', /^[-a-z0-9]{1,63}$/),
      name: textOf(name, 'vm.name', /^[-.a-z0-9]{1,253}$/),
      uid: textOf(uid, 'vm.uid', uidForm),
    },
    pod: { uid: textOf(podUID, 'pod.uid', uidForm), ips: addressesOf(ips, 'pod.ips') },
    plugin: textOf(plugin, 'plugin', nameForm),
    interface: {
      dev: textOf(dev, 'interface.dev', devForm),
      index: countOf(index, 'interface.index', 0, 4096),
      mac: textOf(mac, 'interface.mac', macForm),
      queues: countOf(queues, 'interface.queues', 1, 256),
      ...(podInterface === undefined
        ? {}
        : { podInterface: textOf(podInterface, 'interface.podInterface', podInterfaceForm) }),
    },
  }
}

/**
 * What a plugin printed. It is not trusted: an operator's plugin can have faults, and passes on what it found in the pod.
 * @throws InvalidNetworkMessage
 */
export function parseNetworkResult(value: unknown): NetworkResult {
  const { ips, dhcp, dhcp6 } = recordOf(value, 'result')
  return { ips: ips === undefined ? [] : addressesOf(ips, 'ips'), ...parseOffers(dhcp, dhcp6) }
}

function parseOffers(dhcp: unknown, dhcp6: unknown): Pick<NetworkResult, 'dhcp' | 'dhcp6'> {
  return {
    ...(dhcp === undefined || dhcp === null ? {} : { dhcp: parseDhcpOffer(dhcp) }),
    ...(dhcp6 === undefined || dhcp6 === null ? {} : { dhcp6: parseDhcp6Offer(dhcp6) }),
  }
}

/** @throws InvalidNetworkMessage */
export function parseDhcpOffer(value: unknown): DhcpOffer {
  const { ip, prefix, gateway, mtu, dns, search, server } = recordOf(value, 'dhcp')
  return {
    ip: ipv4Of(ip, 'dhcp.ip'),
    prefix: countOf(prefix, 'dhcp.prefix', 0, 32),
    ...(gateway === undefined ? {} : { gateway: ipv4Of(gateway, 'dhcp.gateway') }),
    ...(mtu === undefined ? {} : { mtu: countOf(mtu, 'dhcp.mtu', 576, 65_535) }),
    ...(dns === undefined ? {} : { dns: listOf(dns, 'dhcp.dns').map((one) => ipv4Of(one, 'dhcp.dns')) }),
    ...(search === undefined ? {} : { search: domainsOf(search, 'dhcp.search') }),
    ...(server === undefined ? {} : { server: ipv4Of(server, 'dhcp.server') }),
  }
}

/** @throws InvalidNetworkMessage */
export function parseDhcp6Offer(value: unknown): Dhcp6Offer {
  const { ip, mtu, dns, search } = recordOf(value, 'dhcp6')
  return {
    ip: ipv6Of(ip, 'dhcp6.ip'),
    // IPv6 requires 1280 bytes of every link.
    ...(mtu === undefined ? {} : { mtu: countOf(mtu, 'dhcp6.mtu', 1280, 65_535) }),
    ...(dns === undefined ? {} : { dns: listOf(dns, 'dhcp6.dns').map((one) => ipv6Of(one, 'dhcp6.dns')) }),
    ...(search === undefined ? {} : { search: domainsOf(search, 'dhcp6.search') }),
  }
}

const domainsOf = (value: unknown, what: string): string[] =>
  listOf(value, what).map((one) => textOf(one, what, domainForm))

/** What the launcher needs to know about a tap, in the body of `PUT /network`. */
export interface TapAddress {
  /** Since version 5 of the launcher. */
  readonly dev?: string
  readonly mac: string
  readonly dhcp?: DhcpOffer
  /** Since version 5 of the launcher, with `dev`. */
  readonly dhcp6?: Dhcp6Offer
}

/**
 * The body of `PUT /network`.
 * @throws InvalidNetworkMessage
 */
export function parseTapAddresses(value: unknown): TapAddress[] {
  return listOf(recordOf(value, 'request')['taps'], 'taps').map((one) => {
    const { dev, mac, dhcp, dhcp6 } = recordOf(one, 'tap')
    return {
      ...(dev === undefined ? {} : { dev: textOf(dev, 'tap.dev', devForm) }),
      mac: textOf(mac, 'tap.mac', macForm),
      ...parseOffers(dhcp, dhcp6),
    }
  })
}

/** The message of a response with an error; bounded, for a condition. */
export function errorMessageOf(value: unknown): string {
  const error = isRecord(value) ? value['error'] : undefined
  return typeof error === 'string' ? shownLine(error.slice(0, 4096)) : 'no message'
}

function recordOf(value: unknown, what: string): { readonly [key: string]: unknown } {
  if (!isRecord(value)) throw new InvalidNetworkMessage(`${what} is not an object`)
  return value
}

function listOf(value: unknown, what: string): readonly unknown[] {
  if (!Array.isArray(value) || value.length > mostAddresses)
    throw new InvalidNetworkMessage(`${what} is not a list of at most ${mostAddresses}`)
  return value
}

const addressesOf = (value: unknown, what: string): string[] =>
  listOf(value, what).map((one) => {
    if (typeof one !== 'string' || one.length > 45 || isIP(one) === 0)
      throw new InvalidNetworkMessage(`${what} has an item that is not an IP address`)
    return one
  })

function ipv4Of(value: unknown, what: string): string {
  if (typeof value !== 'string' || !isIPv4(value)) throw new InvalidNetworkMessage(`${what} is not an IPv4 address`)
  return value
}

/** Without a zone, which has a meaning in one network only. */
function ipv6Of(value: unknown, what: string): string {
  if (typeof value !== 'string' || value.length > 45 || !isIPv6(value) || value.includes('%'))
    throw new InvalidNetworkMessage(`${what} is not an IPv6 address`)
  return value
}

function textOf(value: unknown, what: string, form: RegExp): string {
  if (typeof value !== 'string' || !form.test(value)) throw new InvalidNetworkMessage(`${what} is not valid`)
  return value
}

function countOf(value: unknown, what: string, least: number, most: number): number {
  if (typeof value !== 'number' || !Number.isInteger(value) || value < least || value > most)
    throw new InvalidNetworkMessage(`${what} is not an integer from ${least} to ${most}`)
  return value
}
