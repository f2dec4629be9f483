import type { NetworkInterfaceInfo } from 'node:os'
import { isIPv6, type Socket } from 'node:net'
import type { Clock } from '../runtime/clock.ts'
import { podSideAddress, routerAddress } from '../runtime/network-api.ts'
import { sessionsPerVm } from '../runtime/session-api.ts'
import { dial } from './dial.ts'
import { createRelay, type GuestSession } from './guest-session.ts'
import { Refused } from './refused.ts'

interface PortOptions {
  readonly interfaces: () => { readonly [name: string]: readonly NetworkInterfaceInfo[] | undefined }
  readonly clock: Clock
}

/**
 * Connects to TCP ports of the pod's own address, where a network binding such as passt forwards them to the guest.
 * Never to another host, and not to the loopback address, where a VNC server may listen that needs another permission.
 */
export function createPorts({ interfaces, clock }: PortOptions): (port: number) => Promise<GuestSession> {
  const relay = createRelay({ most: sessionsPerVm.ports, what: 'connections to its ports', clock })
  return (port) =>
    relay(async () => {
      const given = interfaces()
      const [host] = podAddresses(given)
      if (host === undefined) throw new Refused('NotReady', 'the pod of the VM has no address of its own')
      try {
        return unlessToItself(await dial({ host, port, ...ownEnd(given, host) }, clock))
      } catch (error) {
        if (!(error instanceof Error && 'code' in error)) throw error
        const message = `port ${port} of the VM does not accept connections (${String(error.code)} at ${host}): ${cause}`
        throw new Refused('NotReady', message)
      }
    })
}

/** With the plugin `routed`, the pod reaches its guest only from the address on the tap. */
function ownEnd(interfaces: ReturnType<PortOptions['interfaces']>, host: string): { readonly localAddress?: string } {
  const own = isIPv6(host) ? routerAddress : podSideAddress
  const [tap] = Object.entries(interfaces).find(([, some]) => some?.some(({ address }) => address === own)) ?? []
  if (tap === undefined) return {}
  return { localAddress: isIPv6(host) ? `${own}%${tap}` : own }
}

const cause = 'nothing listens there in the guest, or its network interface does not forward the port'

/**
 * To a port without a listener, the kernel can connect a socket with itself: if it chooses the same port for its own
 * end.
 */
function unlessToItself(socket: Socket): Socket {
  if (socket.localPort !== socket.remotePort || socket.localAddress !== socket.remoteAddress) return socket
  socket.destroy()
  throw Object.assign(new Error('a socket was connected with itself'), { code: 'ECONNREFUSED' })
}

/** The addresses of the pod, that of the cluster's network first. */
export function podAddresses(interfaces: ReturnType<PortOptions['interfaces']>): string[] {
  return Object.entries(interfaces)
    .toSorted(([left], [right]) => Number(right === 'eth0') - Number(left === 'eth0'))
    .flatMap(([, addresses = []]) => addresses)
    .filter(({ internal, address }) => !internal && !isLinkLocal(address))
    .toSorted((left, right) => left.family.localeCompare(right.family))
    .map(({ address }) => address)
}

const isLinkLocal = (address: string): boolean => address.startsWith('169.254.') || /^fe[89ab]/i.test(address)
