import { createSocket } from 'node:dgram'
import { createBucket } from '../runtime/bucket.ts'
import type { Clock } from '../runtime/clock.ts'
import type { Logger } from '../runtime/log.ts'
import type { TapAddress } from '../runtime/network-api.ts'
import { parseDhcpRequest, respondDhcp } from './dhcp.ts'

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
 * Answers the DHCP clients of the guest on the taps. Responses are broadcast, so nobody else can be made to receive
 * them. A flood of a guest is dropped before it is parsed.
 */
export async function startDhcpServer(options: DhcpServerOptions): Promise<DhcpServer> {
  const { taps, clock, log, destination = '255.255.255.255' } = options
  const { server, client } = options.ports ?? { server: serverPort, client: clientPort }
  const socket = createSocket({ type: 'udp4', reuseAddr: true })
  const allowed = createBucket(responses.perSecond, responses.burst, clock)
  socket.on('message', (packet) => {
    if (!allowed.takeIfAny()) return
    const request = parseDhcpRequest(packet)
    const response = request === undefined ? undefined : respondDhcp(request, taps)
    if (response === undefined) return
    socket.send(response, client, destination, (error) => {
      if (error !== null) log.warn({ err: error }, 'could not answer the DHCP client of the guest')
    })
  })
  await new Promise<void>((resolve, reject) => {
    socket.once('error', reject)
    socket.bind(server, '0.0.0.0', resolve)
  })
  socket.setBroadcast(true)
  // Without a listener, an error would end the launcher, and the guest with it.
  socket.on('error', (error) => log.warn({ err: error }, 'the DHCP server failed'))
  return { port: socket.address().port, close: () => new Promise((resolve) => void socket.close(() => resolve())) }
}
