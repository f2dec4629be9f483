import { isRecord } from '../../schema.ts'
import { isEmpty, type JsonObject, type Normalization, omit, upperCase, within, withoutZeros } from './member.ts'

/** What libvirt stores for disks. */
export const disk: Normalization = {
  'devices.disks': (disk) => storedDisk(disk),
  'devices.disks.boot': (boot) => upperCase(boot, 'loadparm'),
  'devices.disks.driver': (driver) => storedDiskDriver(driver),
  'devices.disks.source.reservations.source': (source) => omit(source, ['reconnect']),
  'devices.disks.iotune': (iotune) => withoutZeros(iotune),
  'devices.disks.transient': (transient) =>
    omit(transient, transient['shareBacking'] === false ? ['shareBacking'] : []),
}

const storedDisk = (disk: JsonObject): JsonObject => {
  const isReadonly = disk['readonly'] !== undefined
  let result = omit(disk, isReadonly && disk['snapshot'] === 'no' ? ['snapshot'] : [])
  // libvirt does not distinguish the types of drives without a medium.
  const hasMedium = disk['source'] !== undefined && !isEmpty(disk['source'])
  if (!hasMedium && isMedium.has(disk['type'])) result = { ...omit(result, ['source']), type: 'file' }
  result = within(result, 'source', (source) => withoutEmptyLabels(iscsiUnit(source)))
  return within(result, 'target', (target) =>
    omit(target, [...(target['tray'] === 'closed' ? ['tray'] : []), ...(target['bus'] === 'usb' ? [] : ['removable'])]),
  )
}

/** Types of disk that name a medium; the other types name a process. */
const isMedium = new Set<unknown>(['file', 'block', 'dir', 'network', 'volume'])

/** The logical unit is 0 if absent. */
export const iscsiUnit = (source: JsonObject): JsonObject => {
  const { protocol, name } = source
  return protocol === 'iscsi' && typeof name === 'string' && !name.includes('/')
    ? { ...source, name: `${name}/0` }
    : source
}

/** A label that only reported a failure to label the source does not apply to the next start. */
const withoutEmptyLabels = (source: JsonObject): JsonObject => {
  const { seclabel } = source
  const isEmpty = isRecord(seclabel) && seclabel['label'] === undefined && seclabel['relabel'] === undefined
  return isEmpty ? omit(source, ['seclabel']) : source
}

/** `aio` is an old name for a raw image. */
const storedDiskDriver = (driver: JsonObject): JsonObject => ({
  ...omit(driver, driver['cache'] === 'default' ? ['cache'] : []),
  ...(driver['type'] === 'aio' ? { type: 'raw' } : {}),
})
