import { isOn, numberOf } from './reading.ts'
import { each, fill, list, type Addition, type DeviceOf, type Rule, type Values } from './rule.ts'

type Graphics = DeviceOf<'graphics'>

const listens = (type: Graphics['type']): boolean => type === 'vnc' || type === 'spice' || type === 'rdp'

/** With one of these, the user has chosen where the screen is served. */
const places = ['listen', 'listens', 'socket', 'port', 'autoport', 'websocket'] as const

/**
 * The only default that is not libvirt's. libvirt's own is a port of the pod's loopback address, which processes of the
 * pod can connect to, and a share policy with which a viewer that asks for the screen alone disconnects all others.
 */
export const privateScreen: Rule = {
  name: 'private-screen',
  description:
    'VNC without a place to listen listens on a unix socket in the pod, which only sessions reach, and lets several viewers in. This default is virtset’s; libvirt’s would be a TCP port.',
  about: ['graphics'],
  apply: (domain, { isOurs }) =>
    isOurs === true
      ? list(domain, 'graphics')
          .filter((one) => one.type === 'vnc' && places.every((place) => one[place] === undefined))
          .map((one) => fill(one, { sharePolicy: 'ignore', listens: [{ type: 'socket' }] }))
      : [],
}

export const graphicsListen: Rule = {
  name: 'graphics-listen',
  description:
    'VNC, SPICE and RDP listen on an address, by default that of libvirt’s QEMU configuration; `listen` equals the first of `listens`.',
  about: ['graphics'],
  apply: (domain) => list(domain, 'graphics').flatMap(listenOf),
}

const listenOf = (one: Graphics): Addition[] => {
  const { type, listen, listens: places = [], socket } = one
  if (!listens(type)) return []
  const [first] = places
  if (first) {
    if (type === 'vnc' && first.type === 'socket' && first.socket !== undefined) {
      return [fill(one, { socket: first.socket })]
    }
    if (first.type !== 'address') return []
    if (first.address === undefined) return listen === undefined ? [] : [fill(first, { address: listen })]
    return [fill(one, { listen: first.address })]
  }
  if (type === 'spice' && listen === undefined && !hasPort(one)) return [fill(one, { listens: [{ type: 'none' }] })]
  if (socket !== undefined) return [fill(one, { listens: [{ type: 'socket', socket }] })]
  return [fill(one, { listens: [listen === undefined ? { type: 'address' } : { type: 'address', address: listen }] })]
}

/** SPICE without a port and without autoport serves a process that is handed the connection. */
const hasPort = ({ port, tlsPort, autoport }: Graphics): boolean =>
  isOn(autoport) === true || port !== undefined || tlsPort !== undefined

export const graphicsPort = each('graphics')('graphics-port', 'A missing port is assigned at start.', (one) => {
  const { type, port, autoport, listens: places = [] } = one
  if (!listens(type) || ['socket', 'none'].includes(places[0]?.type ?? '')) return undefined
  if (type === 'spice') return spicePort(one)
  if (isOn(autoport)) return { port: -1 }
  return port === undefined || numberOf(port) === -1 ? { port: -1, autoport: true } : { autoport: false }
})

/** SPICE has up to two ports. If one is set, the other is not assigned. */
const spicePort = ({ port, tlsPort, listens: [place] = [] }: Graphics): Values<Graphics> | undefined => {
  const stated = [port, tlsPort].filter((one) => one !== undefined).map(numberOf)
  if (stated.length === 0) return place?.type === 'network' ? { autoport: false } : undefined
  if (stated.length === 2 && stated.every((one) => one === -1)) return { autoport: true }
  return { autoport: false }
}
