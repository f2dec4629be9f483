import type { Json, JsonObject } from '../runtime/launcher-api.ts'
import { isJsonObject } from './drift.ts'

export const itemOf = (value: Json | undefined, key: string): Json | undefined =>
  isJsonObject(value) ? value[key] : undefined

export const itemsOf = (value: Json | undefined, key: string): JsonObject[] => {
  const items = itemOf(value, key)
  return Array.isArray(items) ? items.filter((item) => isJsonObject(item)) : []
}

/**
 * The alias of the serial port that guests use for their console: port 0, also if it is not the first in the list.
 * Null, libvirt's default, if the first one is.
 * @param domain the live domain, in which libvirt has assigned ports and aliases
 */
export function consoleAlias(domain: JsonObject | undefined): string | null {
  const serials = itemsOf(itemOf(domain, 'devices'), 'serials').map((serial) => ({
    port: Number(itemOf(serial['target'], 'port') ?? 0),
    alias: itemOf(serial['alias'], 'name'),
  }))
  const [first, ...others] = serials
  const lowest = others.reduce((one, other) => (one !== undefined && other.port < one.port ? other : one), first)
  return lowest === first || typeof lowest?.alias !== 'string' ? null : lowest.alias
}

/** Whether the drive with this target is open, as libvirt leaves it when it could not insert a medium. */
export const hasOpenTray = (domain: JsonObject | undefined, target: string): boolean =>
  itemsOf(itemOf(domain, 'devices'), 'disks').some(
    (disk) => itemOf(disk['target'], 'dev') === target && itemOf(disk['target'], 'tray') === 'open',
  )
