import { isIPv4, isIPv6 } from 'node:net'
import { isRecord } from '../../api/schema.ts'

/** The network of a pod, as `ip -json` describes it. It has an address of one family or both. */
export interface PodLink {
  /** The name of the interface that has the addresses of the pod. */
  readonly name: string
  readonly mtu: number
  readonly ipv4?: { readonly ip: string; readonly prefix: number; readonly gateway?: string }
  readonly ipv6?: { readonly ip: string }
}

/** As names of interfaces are used in scripts: the kernel allows more. */
const linkForm = /^[a-zA-Z0-9_.-]{1,15}$/

/**
 * The interface that has the first address of the pod, and the first of each family there.
 * @param addresses the output of `ip -json address`
 * @param routes the output of `ip -json -4 route show default`
 * @throws if there is none
 */
export function findPodLink(podIPs: readonly string[], addresses: unknown, routes: unknown): PodLink {
  const given = listOf(addresses).flatMap((link) => listOf(link['addr_info']).map((info) => ({ link, info })))
  const found = podIPs.flatMap((ip) => given.filter(({ info }) => info['local'] === ip))
  const [first] = found
  if (first === undefined) throw new Error(`no interface of the pod has its address ${podIPs.join(', ')}`)
  const { ifname: name, mtu } = first.link
  const own = found.filter(({ link }) => link === first.link)
  const infoOf = (isOf: (ip: string) => boolean) => own.find(({ info }) => isOf(String(info['local'])))?.info
  const [ipv4, ipv6] = [infoOf(isIPv4), infoOf(isIPv6)]
  const prefix = ipv4?.['prefixlen'] ?? 0
  if (typeof name !== 'string' || !linkForm.test(name) || typeof mtu !== 'number' || typeof prefix !== 'number')
    throw new Error(`the interface of ${podIPs.join(', ')} has no valid name, MTU or prefix`)
  const gateway = listOf(routes).find(({ dev }) => dev === name)?.['gateway']
  const hasGateway = typeof gateway === 'string' && isIPv4(gateway)
  return {
    name,
    mtu,
    ...(ipv4 && { ipv4: { ip: String(ipv4['local']), prefix, ...(hasGateway ? { gateway } : {}) } }),
    ...(ipv6 && { ipv6: { ip: String(ipv6['local']) } }),
  }
}

function listOf(value: unknown): { readonly [key: string]: unknown }[] {
  return Array.isArray(value) ? value.filter(isRecord) : []
}
