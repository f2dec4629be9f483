import { isOn, numberOf } from './reading.ts'
import { each, fill, list, type Addition, type DeviceOf, type Rule } from './rule.ts'

type Graphics = DeviceOf<'graphics'>

const listens = (type: Graphics['type']): boolean => type === 'vnc' || type === 'spice' || type === 'rdp'

export const graphicsListen: Rule = {
  name: 'graphics-listen',
  description:
    'VNC, SPICE and RDP listen on an address, by default the one of QEMU’s own; `listen` and the first of `listens` say the same.',
  apply: (domain) => list(domain, 'graphics').flatMap((one, index) => listenOf(one, `devices.graphics[${index}]`)),
}

const listenOf = (one: Graphics, at: string): Addition[] => {
  const { type, listen, listens: places = [], socket } = one
  if (!listens(type)) return []
  const [first] = places
  if (first) {
    if (type === 'vnc' && first.type === 'socket' && first.socket !== undefined) {
      return [fill(at, one, { socket: first.socket })]
    }
    if (first.type !== 'address') return []
    if (first.address === undefined)
      return listen === undefined ? [] : [fill(`${at}.listens[0]`, first, { address: listen })]
    return [fill(at, one, { listen: first.address })]
  }
  if (type === 'spice' && listen === undefined && !hasPort(one)) return [fill(at, one, { listens: [{ type: 'none' }] })]
  if (socket !== undefined) return [fill(at, one, { listens: [{ type: 'socket', socket }] })]
  return [
    fill(at, one, { listens: [listen === undefined ? { type: 'address' } : { type: 'address', address: listen }] }),
  ]
}

/** Without a port, and without one to be chosen, SPICE is for a process that is handed the connection. */
const hasPort = ({ port, tlsPort, autoport }: Graphics): boolean =>
  isOn(autoport) === true || port !== undefined || tlsPort !== undefined

export const graphicsPort = each('graphics')(
  'graphics-port',
  'A port that is not given is chosen at start.',
  ({ type, port, autoport, listens: places = [] }) => {
    if (!listens(type) || ['socket', 'none'].includes(places[0]?.type ?? '')) return undefined
    if (type === 'spice') return undefined
    if (isOn(autoport)) return { port: -1 }
    return port === undefined || numberOf(port) === -1 ? { port: -1, autoport: true } : { autoport: false }
  },
)
