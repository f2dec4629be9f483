import { isRecord } from '../../schema.ts'
import { type JsonObject, type Normalization, omit } from './member.ts'

/** What libvirt stores for displays. */
export const graphics: Normalization = {
  'devices.graphics': (graphics) => storedGraphics(withStatedChannels(graphics)),
}

/** libvirt does not store a channel with mode `any`. */
const withStatedChannels = (graphics: JsonObject): JsonObject => {
  const { channels } = graphics
  if (!Array.isArray(channels)) return graphics
  const stated = channels.filter((one) => !isRecord(one) || one['mode'] !== 'any')
  return stated.length === 0 ? omit(graphics, ['channels']) : { ...graphics, channels: stated }
}

/** A server that does not listen on TCP has no ports. Ports chosen at start are not stored. */
const storedGraphics = (graphics: JsonObject): JsonObject => {
  const { type, listens, autoport, port } = graphics
  if (type === 'sdl' && graphics['fullscreen'] === false) return omit(graphics, ['fullscreen'])
  if (type === 'dbus' && graphics['p2p'] === false) return omit(graphics, ['p2p'])
  const first: unknown = Array.isArray(listens) ? listens[0] : undefined
  const hasPort = !isRecord(first) || (first['type'] !== 'none' && first['type'] !== 'socket')
  if (!hasPort) return omit(graphics, ['port', 'tlsPort', 'autoport', 'websocket'])
  if (type === 'spice' && isRecord(first) && first['type'] === 'address' && !hasSpicePort(graphics)) {
    return { ...omit(graphics, ['port', 'tlsPort', 'autoport', 'listen']), listens: [{ type: 'none' }] }
  }
  if (port === 0 || (port === -1 && autoport === false && type !== 'spice'))
    return omit(graphics, type === 'rdp' ? [] : ['port'])
  if (type === 'spice' && autoport === true) return omit(graphics, ['port', 'tlsPort'])
  return autoport === true && port !== undefined && type === 'vnc' ? { ...graphics, port: -1 } : graphics
}

/** Without a port, SPICE does not listen, regardless of the address. */
const hasSpicePort = ({ port = 0, tlsPort = 0, autoport }: JsonObject): boolean =>
  autoport === true || port !== 0 || tlsPort !== 0
