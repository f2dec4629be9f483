import { BlockList, isIP } from 'node:net'
import type { GuestOS, GuestStatus } from '../api/guest.ts'
import { isRecord } from '../api/schema.ts'
import { shownText } from './shown-text.ts'

/** Whether the agent in a guest has opened its channel and answers. */
export const agentStates = ['connected', 'disconnected', 'unresponsive'] as const
export type AgentState = (typeof agentStates)[number]

/** The condition of VMs with a channel for an agent. */
export const agentCondition = 'AgentConnected'

export interface GuestInterface {
  /** In lower case. */
  readonly mac: string
  readonly ips: readonly string[]
}

/** What an agent reports, bounded. */
export interface GuestInfo extends GuestStatus {
  readonly interfaces?: readonly GuestInterface[]
}

const maxText = 128
/** The longest name of a host in DNS. */
const maxHostname = 253
const maxInterfaces = 32
const maxAddresses = 16

/**
 * What a guest claims, with what is not valid left out: the guest decides what its agent sends, and the launcher what
 * the handler receives. Interfaces of the same MAC address are one, such as a bridge and its port.
 */
export function boundGuestInfo(value: unknown): GuestInfo {
  if (!isRecord(value)) return {}
  const hostname = textOf(value['hostname'], maxHostname)
  const os = osOf(value['os'])
  const interfaces = interfacesOf(value['interfaces'])
  return {
    ...(hostname === undefined ? {} : { hostname }),
    ...(Object.keys(os).length === 0 ? {} : { os }),
    ...(interfaces.length === 0 ? {} : { interfaces }),
  }
}

function osOf(value: unknown): GuestOS {
  if (!isRecord(value)) return {}
  const fields = ['id', 'name', 'version', 'kernel'].flatMap((key) => {
    const text = textOf(value[key], maxText)
    return text === undefined ? [] : [[key, text]]
  })
  return Object.fromEntries(fields)
}

function interfacesOf(value: unknown): GuestInterface[] {
  if (!Array.isArray(value)) return []
  const byMac = new Map<string, Set<string>>()
  for (const one of value.slice(0, maxInterfaces)) {
    if (!isRecord(one) || typeof one['mac'] !== 'string' || !Array.isArray(one['ips'])) continue
    const mac = one['mac'].toLowerCase()
    const ips = one['ips'].slice(0, maxAddresses).filter(isReachable)
    if (!macPattern.test(mac) || ips.length === 0) continue
    byMac.set(mac, new Set([...(byMac.get(mac) ?? []), ...ips]))
  }
  return [...byMac]
    .map(([mac, ips]) => ({ mac, ips: [...ips].toSorted().slice(0, maxAddresses) }))
    .toSorted((one, other) => (one.mac < other.mac ? -1 : 1))
}

const macPattern = /^[0-9a-f]{2}(:[0-9a-f]{2}){5}$/

/**
 * Addresses of this host, of its link or of no host, which are the same in every guest. Those of IPv4 also apply to IPv6
 * addresses that contain them.
 */
const unreachable = new BlockList()
unreachable.addSubnet('0.0.0.0', 8, 'ipv4')
unreachable.addSubnet('127.0.0.0', 8, 'ipv4')
unreachable.addSubnet('169.254.0.0', 16, 'ipv4')
unreachable.addSubnet('224.0.0.0', 3, 'ipv4')
unreachable.addSubnet('::', 127, 'ipv6')
unreachable.addSubnet('fe80::', 10, 'ipv6')
unreachable.addSubnet('ff00::', 8, 'ipv6')

const isReachable = (value: unknown): value is string =>
  typeof value === 'string' &&
  isIP(value) !== 0 &&
  !value.includes('%') &&
  !unreachable.check(value, isIP(value) === 4 ? 'ipv4' : 'ipv6')

function textOf(value: unknown, maxLength: number): string | undefined {
  if (typeof value !== 'string') return undefined
  const text = shownText(value.slice(0, maxLength)).replaceAll('\n', '\uFFFD').trim()
  return text === '' ? undefined : text
}
