import { createSocket, type RemoteInfo, type Socket } from 'node:dgram'
import { createBucket } from '../runtime/bucket.ts'
import type { Clock } from '../runtime/clock.ts'
import type { Logger } from '../runtime/log.ts'
import { advertisements, type Dhcp6Offer } from '../runtime/network-api.ts'
import { parseDhcp6Request, respondDhcp6 } from './dhcp6.ts'
import { advertisementOf } from './router-advertisement.ts'

const serverPort = 547
const clientPort = 546
/** All servers of the link. */
const group = 'ff02::1:2'
const loopback = '127.0.0.1'
/** VXLAN does not send to an address that is local, unless it is a broadcast. */
const broadcast = '127.255.255.255'
/** A guest boots with a handful of packets. */
const responses = { perSecond: 10, burst: 50 }
/** So that a guest that has lost one advertisement or ten keeps its router. */
const advertiseMs = 600_000

interface Dhcp6ServerOptions {
  /** The name of the tap. */
  readonly dev: string
  readonly offer: Dhcp6Offer
  readonly clock: Clock
  readonly log: Logger
}

export interface Dhcp6Server {
  close(): Promise<void>
}

/**
 * Answers the DHCPv6 clients of the guest on a tap, and advertises its router. Responses go to the link-local address
 * that asked, on the tap. A flood of a guest is dropped before it is parsed.
 */
export async function startDhcp6Server({ dev, offer, clock, log }: Dhcp6ServerOptions): Promise<Dhcp6Server> {
  const allowed = createBucket(responses.perSecond, responses.burst, clock)
  const warn = (error: Error | null) => {
    if (error !== null) log.warn({ err: error }, 'could not answer the guest by IPv6')
  }
  const answer = (packet: Buffer, { address }: RemoteInfo) => {
    if (!address.endsWith(`%${dev}`) || !allowed.takeIfAny()) return
    const request = parseDhcp6Request(packet)
    const response = request === undefined ? undefined : respondDhcp6(request, offer)
    if (response !== undefined) dhcp.send(response, clientPort, address, warn)
  }
  const advertisement = advertisementOf(offer)
  const advertise = () => router.send(advertisement, advertisements.port, loopback, warn)

  const dhcp = createSocket({ type: 'udp6', ipv6Only: true })
  const router = createSocket('udp4')
  const close = async () => {
    await Promise.all([dhcp, router].map((socket) => new Promise<void>((resolve) => void socket.close(resolve))))
  }
  try {
    await Promise.all([bind(dhcp, serverPort, '::'), bind(router, advertisements.launcherPort, broadcast)])
    dhcp.addMembership(group, `::%${dev}`)
  } catch (error) {
    await close()
    throw error
  }
  dhcp.on('message', answer)
  // Whatever arrives here is a solicitation.
  router.on('message', () => allowed.takeIfAny() && advertise())
  // Without a listener, an error would end the launcher, and the guest with it.
  for (const socket of [dhcp, router]) socket.on('error', warn)

  let cancel = () => {}
  const repeat = () => {
    advertise()
    cancel = clock.after(advertiseMs, repeat)
  }
  cancel = clock.after(advertiseMs, repeat)
  return {
    async close() {
      cancel()
      await close()
    },
  }
}

function bind(socket: Socket, port: number, address: string): Promise<void> {
  return new Promise((resolve, reject) => {
    socket.once('error', reject)
    socket.bind(port, address, () => {
      socket.off('error', reject)
      resolve()
    })
  })
}
