import { usedTaps } from '../api/tap.ts'
import type { VirtualMachine } from '../api/virtual-machine.ts'
import type { NetworkRequest, TapAddress } from '../runtime/network-api.ts'
import type { Persisted } from '../runtime/resource.ts'
import { NetworkFailure, type NetworkClient } from './network-client.ts'

/**
 * What is requested for the taps of a VM. Only the stored VM and the kubelet decide it: its spec, the uid of its pod in
 * the status, which only the controller can set, and the pod's addresses in the kubelet's own file.
 */
export function networkRequests(
  { metadata, spec }: Persisted<VirtualMachine>,
  podUID: string,
  ips: readonly string[],
): NetworkRequest[] {
  const { name, uid, namespace = '' } = metadata
  return usedTaps(spec).map((tap) => {
    const { plugin, network: _network, ...one } = tap
    return {
      vm: { namespace, name, uid },
      pod: { uid: podUID, ips },
      plugin,
      interface: one,
    }
  })
}

/** The addresses at which others reach the guest, by the name of the tap. */
export type TapIPs = ReadonlyMap<string, readonly string[]>

/**
 * The addresses for the launcher's DHCP servers, and for the status. Repeating it changes nothing.
 * @throws NetworkFailure
 */
async function addTaps(
  client: NetworkClient,
  requests: readonly NetworkRequest[],
): Promise<{ readonly addresses: readonly TapAddress[]; readonly ips: TapIPs }> {
  const addresses: TapAddress[] = []
  const known = new Map<string, readonly string[]>()
  for (const one of requests) {
    const { ips, dhcp, dhcp6 } = await client.add(one)
    const { dev, mac } = one.interface
    known.set(dev, ips)
    if (dhcp === undefined && dhcp6 === undefined) continue
    addresses.push({ dev, mac, ...(dhcp && { dhcp }), ...(dhcp6 && { dhcp6 }) })
  }
  return { addresses, ips: known }
}

/** Of a VM whose taps are being created, or could not be created. */
export type TapAttempt =
  | { readonly state: 'pending' }
  | { readonly state: 'ready'; readonly addresses: readonly TapAddress[]; readonly ips: TapIPs }
  | { readonly state: 'failed'; readonly reason: NetworkFailure['reason']; readonly message: string }

/** The outcome of `addTaps`. */
export async function attemptTaps(client: NetworkClient, requests: readonly NetworkRequest[]): Promise<TapAttempt> {
  try {
    return { state: 'ready', ...(await addTaps(client, requests)) }
  } catch (error) {
    const failure = error instanceof NetworkFailure ? error.reason : 'NetworkAgentUnavailable'
    return { state: 'failed', reason: failure, message: error instanceof Error ? error.message : String(error) }
  }
}
