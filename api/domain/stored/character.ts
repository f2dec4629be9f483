import { isRecord } from '../../schema.ts'
import { chardevUnion } from '../elements/chardev-source.ts'
import { type JsonObject, type Normalization, omit, upperCase } from './member.ts'

/** What libvirt stores for character devices. */
export const character: Normalization = {
  'devices.smartcards': (device) => storedCharacter(device),
  'devices.serials': (device) => storedCharacter(device),
  'devices.parallels': (device) => storedCharacter(device),
  'devices.consoles': (device) => storedCharacter(device),
  'devices.channels': (device) => withoutDefaultPath(storedCharacter(device)),
  'devices.redirdevs': (device) => storedCharacter(device),
  'devices.redirdevs.boot': (boot) => upperCase(boot, 'loadparm'),
  'devices.rngs.backend': (backend) => storedCharacter(backend),
}

/** Omits the properties that do not apply to the type. A socket without a path has none; an empty source is omitted. */
const storedCharacter = (device: JsonObject): JsonObject => {
  const { type, source, sources } = device
  const owned = typeof type === 'string' ? chardevUnion.branches?.[type] : undefined
  if (!owned) return device
  // A single label has a key of its own. The path of a pseudo terminal changes at each start.
  const keys = new Set(
    owned.flatMap((key) => (key === 'sources.seclabels' ? ['seclabels', 'seclabel'] : [key.replace('sources.', '')])),
  )
  const storedSource = (one: unknown): unknown =>
    isRecord(one) ? storedReconnect(Object.fromEntries(Object.entries(one).filter(([key]) => keys.has(key)))) : one
  if (type === 'pty') keys.delete('path')
  const result = omit(device, keys.has('protocol') ? [] : ['protocol'])
  if (Array.isArray(sources)) return { ...result, sources: sources.map(storedSource) }
  if (!isRecord(source)) return result
  const left = storedSource(source)
  const isNothing = !isRecord(left) || Object.keys(left).length === 0 || (type === 'unix' && left['path'] === undefined)
  return isNothing ? omit(result, ['source']) : { ...result, source: left }
}

/** The timeout applies only if reconnecting is enabled. */
const storedReconnect = (source: JsonObject): JsonObject => {
  const { reconnect } = source
  if (!isRecord(reconnect) || reconnect['enabled'] === true) return source
  return reconnect['enabled'] === undefined
    ? omit(source, ['reconnect'])
    : { ...source, reconnect: omit(reconnect, ['timeout']) }
}

/** libvirt generates the path of a channel at each start, and recognizes its own paths. */
const withoutDefaultPath = (channel: JsonObject): JsonObject => {
  const { type, source, target } = channel
  if (type !== 'unix' || !isRecord(source) || !isRecord(target)) return channel
  const { path } = source
  const { name } = target
  if (typeof path !== 'string' || typeof name !== 'string' || !path.endsWith(name)) return channel
  return defaultPath.test(path.slice(0, path.length - name.length)) ? omit(channel, ['source']) : channel
}

const defaultPath =
  /^\/(?:var\/lib|var\/run|run)\/libvirt\/qemu\/channel\/(?:target\/)?(?:[^/]+\.|domain-[^/]+\/|\d+-[^/]+\/)$/
