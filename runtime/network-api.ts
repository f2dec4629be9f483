import { isIP, isIPv4 } from 'node:net'
import { isRecord } from '../api/schema.ts'
import { shownText } from './shown-text.ts'

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
}

/** What a plugin made. */
export interface NetworkResult {
  /** The addresses at which others reach the guest. */
  readonly ips: readonly string[]
  /** What the launcher answers to the guest's DHCP client; absent if another server answers. */
  readonly dhcp?: DhcpOffer
}

export interface DhcpOffer {
  readonly ip: string
  readonly prefix: number
  readonly gateway?: string
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

/** The name of the agent's socket in its directory. */
export const networkSocketName = 'network.sock'

/** The longest request and result in bytes. */
export const maxNetworkBytes = 64 * 1024

const mostAddresses = 16
const uidForm = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/
const nameForm = /^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$/
const devForm = /^tap[0-9a-z]{1,12}$/
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
  const { dev, index, mac, queues } = recordOf(one, 'interface')
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
    },
  }
}

/**
 * What a plugin printed. It is not trusted: an operator's plugin can have faults, and passes on what it found in the pod.
 * @throws InvalidNetworkMessage
 */
export function parseNetworkResult(value: unknown): NetworkResult {
  const { ips, dhcp } = recordOf(value, 'result')
  const given = ips === undefined ? [] : addressesOf(ips, 'ips')
  if (dhcp === undefined || dhcp === null) return { ips: given }
  return { ips: given, dhcp: parseDhcpOffer(dhcp) }
}

/** @throws InvalidNetworkMessage */
export function parseDhcpOffer(value: unknown): DhcpOffer {
  const { ip, prefix, gateway, mtu, dns, search } = recordOf(value, 'dhcp')
  return {
    ip: ipv4Of(ip, 'dhcp.ip'),
    prefix: countOf(prefix, 'dhcp.prefix', 0, 32),
    ...(gateway === undefined ? {} : { gateway: ipv4Of(gateway, 'dhcp.gateway') }),
    ...(mtu === undefined ? {} : { mtu: countOf(mtu, 'dhcp.mtu', 576, 65_535) }),
    ...(dns === undefined ? {} : { dns: listOf(dns, 'dhcp.dns').map((one) => ipv4Of(one, 'dhcp.dns')) }),
    ...(search === undefined
      ? {}
      : { search: listOf(search, 'dhcp.search').map((one) => textOf(one, 'dhcp.search', domainForm)) }),
  }
}

/** What the launcher needs to know about a tap, in the body of `PUT /network`. */
export interface TapAddress {
  readonly mac: string
  readonly dhcp: DhcpOffer
}

/**
 * The body of `PUT /network`.
 * @throws InvalidNetworkMessage
 */
export function parseTapAddresses(value: unknown): TapAddress[] {
  return listOf(recordOf(value, 'request')['taps'], 'taps').map((one) => {
    const { mac, dhcp } = recordOf(one, 'tap')
    return { mac: textOf(mac, 'tap.mac', macForm), dhcp: parseDhcpOffer(dhcp) }
  })
}

/** The message of a response with an error; bounded, for a condition. */
export function errorMessageOf(value: unknown): string {
  const error = isRecord(value) ? value['error'] : undefined
  return typeof error === 'string' ? shownText(error.slice(0, 4096)) : 'no message'
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

function textOf(value: unknown, what: string, form: RegExp): string {
  if (typeof value !== 'string' || !form.test(value)) throw new InvalidNetworkMessage(`${what} is not valid`)
  return value
}

function countOf(value: unknown, what: string, least: number, most: number): number {
  if (typeof value !== 'number' || !Number.isInteger(value) || value < least || value > most)
    throw new InvalidNetworkMessage(`${what} is not an integer from ${least} to ${most}`)
  return value
}
