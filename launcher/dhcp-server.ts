import { createSocket, type Socket } from 'node:dgram'
import { createBucket } from '../runtime/bucket.ts'
import type { Clock } from '../runtime/clock.ts'
import type { Logger } from '../runtime/log.ts'
import type { TapAddress } from '../runtime/network-api.ts'
import { offerTo, parseDhcpRequest, respondDhcp } from './dhcp.ts'

const serverPort = 67
const clientPort = 68
/** A guest boots with a handful of packets. */
const responses = { perSecond: 10, burst: 50 }

interface DhcpServerOptions {
  readonly taps: readonly TapAddress[]
  readonly clock: Clock
  readonly log: Logger
  /** 67 and 68 if absent. */
  readonly ports?: { readonly server: number; readonly client: number }
  /** Where responses are sent: 255.255.255.255 if absent, whose route in the pod leads to the tap. */
  readonly destination?: string
}

export interface DhcpServer {
  readonly port: number
  close(): Promise<void>
}

/**
 * Answers the DHCP clients of the guest on the taps. Responses are broadcast, so no other client can be made to receive
 * them; by the address from which they are sent, the pod routes them to one of its taps. A flood of a guest is dropped
 * before it is parsed.
 */
export async function startDhcpServer(options: DhcpServerOptions): Promise<DhcpServer> {
  const { taps, clock, log, destination = '255.255.255.255' } = options
  const { server, client } = options.ports ?? { server: serverPort, client: clientPort }
  const open = (address: string) => openSocket(address, server, log)
  const socket = await open('0.0.0.0')
  const addresses = new Set(taps.flatMap(({ dhcp }) => dhcp?.server ?? []))
  const senders = new Map<string | undefined, Socket>()
  for (const address of addresses) senders.set(address, await open(address))
  const allowed = createBucket(responses.perSecond, responses.burst, clock)
  socket.on('message', (packet) => {
    if (!allowed.takeIfAny()) return
    const request = parseDhcpRequest(packet)
    const response = request === undefined ? undefined : respondDhcp(request, taps)
    if (request === undefined || response === undefined) return
    const sender = senders.get(offerTo(request, taps)?.server) ?? socket
    sender.send(response, client, destination, (error) => {
      if (error !== null) log.warn({ err: error }, 'could not answer the DHCP client of the guest')
    })
  })
  const close = (one: Socket) => new Promise<void>((resolve) => void one.close(() => resolve()))
  return {
    port: socket.address().port,
    close: async () => void (await Promise.all([socket, ...senders.values()].map(close))),
  }
}

async function openSocket(address: string, port: number, log: Logger): Promise<Socket> {
  const socket = createSocket({ type: 'udp4', reuseAddr: true })
  await new Promise<void>((resolve, reject) => {
    socket.once('error', reject)
    socket.bind(port, address, resolve)
  })
  socket.setBroadcast(true)
  // Without a listener, an error would end the launcher, and the guest with it.
  socket.on('error', (error) => log.warn({ err: error }, 'the DHCP server failed'))
  return socket
}
