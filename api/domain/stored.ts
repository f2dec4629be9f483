import { isRecord } from '../schema.ts'
import { character } from './stored/character.ts'
import { clock } from './stored/clock.ts'
import { controller } from './stored/controller.ts'
import { disk } from './stored/disk.ts'
import { feature } from './stored/feature.ts'
import { filesystem } from './stored/filesystem.ts'
import { graphics } from './stored/graphics.ts'
import { hostdev } from './stored/hostdev.ts'
import { networkInterface } from './stored/interface.ts'
import { memoryDevice } from './stored/memory-device.ts'
import { isEmpty, type JsonObject, type Normalization, omit, withoutZeros } from './stored/member.ts'
import { sound } from './stored/sound.ts'
import { sysinfo } from './stored/sysinfo.ts'
import { video } from './stored/video.ts'

/**
 * What libvirt stores for the element at a path (`devices.disks.driver`, without indexes). `json` must be in libvirt's
 * spelling.
 */
export const stored = (path: string, json: JsonObject): JsonObject => {
  const own = Object.hasOwn(normalizations, path) ? (normalizations[path]?.(json) ?? json) : json
  const result = withoutRest(path, own)
  const filled = omit(
    result,
    Object.keys(result).filter(
      (key) =>
        (emptied.has(key) || emptied.has(`${path}.${key}`)) &&
        isEmpty(result[key]) &&
        `${path}.${key}` !== 'features.acpi',
    ),
  )
  return path.startsWith('devices.') ? withoutGeneratedAlias(filled) : filled
}

/** `startupPolicy` has no effect on a backing image; an image without a type ends the chain. */
const withoutRest = (path: string, json: JsonObject): JsonObject => {
  if (path.endsWith('.backingStore.source')) return omit(json, ['startupPolicy'])
  if (path.endsWith('.source.host') || path.endsWith('.source.hosts')) {
    return omit(json, json['transport'] === 'tcp' ? ['transport'] : [])
  }
  return path.endsWith('.backingStore') && json['type'] === undefined ? omit(json, ['format']) : json
}

/** Elements that libvirt does not store if they are empty; among the features, an empty `acpi` enables ACPI. */
const emptied: ReadonlySet<string> = new Set([
  'acpi',
  'allocation',
  'bandwidth',
  'binary',
  'blockio',
  'bios',
  'catchup',
  'coalesce',
  'cookies',
  'devices.controllers.target',
  'devices.interfaces.driver.guest',
  'devices.interfaces.driver.host',
  'devices.interfaces.port',
  'devices.interfaces.source',
  'devices.interfaces.virtualport.parameters',
  'devices.tpms.backend.activePcrBanks',
  'devices.tpms.backend.profile',
  'driver',
  'identity',
  'idmap',
  'input',
  'interconnects',
  'memoryBacking.source',
  'iotune',
  'metadataCache',
  'os.firmwareSelection',
  'os.nvram',
  'output',
  'poll',
  'reconnect',
  'rom',
  'tcg',
  'throttlefilters',
  'tune',
])

/** libvirt stores the aliases of users, and generates others at each start. */
const withoutGeneratedAlias = (device: JsonObject): JsonObject => {
  const { alias } = device
  return isRecord(alias) && typeof alias['name'] === 'string' && !alias['name'].startsWith('ua-')
    ? omit(device, ['alias'])
    : device
}

/**
 * What libvirt stores for an element, beyond the spelling of single values: it omits what does not apply beside the
 * other fields, and some defaults. Each function gets the element in libvirt's spelling. Fields that libvirt reports
 * only while a VM runs are marked `live` in the description instead.
 */
const normalizations: Normalization = {
  ...character,
  ...clock,
  ...controller,
  ...disk,
  ...feature,
  ...filesystem,
  ...graphics,
  ...hostdev,
  ...memoryDevice,
  ...networkInterface,
  ...sound,
  ...sysinfo,
  ...video,
  'devices.memballoon': (balloon) => omit(balloon, balloon['model'] === 'none' ? ['address'] : []),
  'devices.iommu.driver': (driver) => withoutZeros(driver),
  'memoryBacking.allocation': (allocation) => withoutZeros(allocation),
  'devices.tpms.backend': (backend) =>
    omit(backend, [
      ...(backend['persistentState'] === false ? ['persistentState'] : []),
      ...(backend['type'] === 'passthrough' ? ['version'] : []),
    ]),
  // `match` applies only to a named model.
  cpu: (cpu) => omit(cpu, cpu['mode'] === undefined || cpu['mode'] === 'custom' ? [] : ['match']),
  'numatune.memory': (memory) => omit(memory, memory['placement'] === 'static' ? ['placement'] : []),
  devices: (devices) => omit(devices, isEmpty(devices['redirfilter']) ? ['redirfilter'] : []),
  'os.bootmenu': (menu) => omit(menu, menu['enable'] === false ? ['timeout'] : []),
  'devices.redirfilter.usbdevs': (rule) =>
    omit(
      rule,
      // -1 means any; libvirt then stores nothing.
      ['class', 'vendor', 'product', 'version'].filter((key) => rule[key] === -1 || rule[key] === '-1'),
    ),
}
