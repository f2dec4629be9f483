import type { Clock } from '../runtime/clock.ts'
import type { Logger } from '../runtime/log.ts'
import type { TapAddress } from '../runtime/network-api.ts'
import type { ResolvConf } from './dhcp.ts'
import { startDhcpServer } from './dhcp-server.ts'
import { startDhcp6Server } from './dhcp6-server.ts'

interface AddressServersOptions {
  readonly taps: readonly TapAddress[]
  /** DNS for offers that state none. */
  readonly ofPod: ResolvConf
  readonly clock: Clock
  readonly log: Logger
}

export interface AddressServers {
  close(): Promise<void>
}

/** Gives the guest the addresses of its taps, by DHCP and by DHCPv6. */
export async function serveAddresses({ taps, ofPod, clock, log }: AddressServersOptions): Promise<AddressServers> {
  const { dns, dns6, search } = ofPod
  const servers: AddressServers[] = []
  const ipv4 = taps.flatMap(({ mac, dhcp }) => (dhcp === undefined ? [] : [{ mac, dhcp: { dns, search, ...dhcp } }]))
  if (ipv4.length > 0) servers.push(await startDhcpServer({ taps: ipv4, clock, log }))
  for (const { dev, dhcp6 } of taps) {
    if (dev === undefined || dhcp6 === undefined) continue
    servers.push(await startDhcp6Server({ dev, offer: { dns: dns6, search, ...dhcp6 }, clock, log }))
  }
  return { close: async () => void (await Promise.all(servers.map((server) => server.close()))) }
}
