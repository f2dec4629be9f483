import { isRecord } from '../schema.ts'
import { character } from './kept/character.ts'
import { clock } from './kept/clock.ts'
import { controller } from './kept/controller.ts'
import { disk } from './kept/disk.ts'
import { feature } from './kept/feature.ts'
import { filesystem } from './kept/filesystem.ts'
import { graphics } from './kept/graphics.ts'
import { hostdev } from './kept/hostdev.ts'
import { networkInterface } from './kept/interface.ts'
import { memoryDevice } from './kept/memory-device.ts'
import { isEmpty, type JsonObject, type Kept, omit, withoutZeros } from './kept/member.ts'
import { sound } from './kept/sound.ts'
import { video } from './kept/video.ts'

/** What libvirt keeps of the element at a path (`devices.disks.driver`; indexes do not count), which is in libvirt's spelling. */
export const keep = (path: string, json: JsonObject): JsonObject => {
  const own = Object.hasOwn(kept, path) ? (kept[path]?.(json) ?? json) : json
  const result = withoutRest(path, own)
  const said = omit(
    result,
    Object.keys(result).filter(
      (key) =>
        (emptied.has(key) || emptied.has(`${path}.${key}`)) &&
        isEmpty(result[key]) &&
        `${path}.${key}` !== 'features.acpi',
    ),
  )
  return path.startsWith('devices.') ? withoutGeneratedAlias(said) : said
}

/** What is said of an image below another: whether it must be there counts for the uppermost only; one of no type ends the chain. */
const withoutRest = (path: string, json: JsonObject): JsonObject => {
  if (path.endsWith('.backingStore.source')) return omit(json, ['startupPolicy'])
  if (path.endsWith('.source.host') || path.endsWith('.source.hosts')) {
    return omit(json, json['transport'] === 'tcp' ? ['transport'] : [])
  }
  return path.endsWith('.backingStore') && json['type'] === undefined ? omit(json, ['format']) : json
}

/** Elements that libvirt does not name where nothing is in them; that ACPI is there, among the features, is said by an empty one. */
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
  'os.nvram',
  'output',
  'poll',
  'reconnect',
  'rom',
  'tcg',
  'throttlefilters',
  'tune',
])

/** libvirt keeps the aliases of users, and gives its own anew at each start. */
const withoutGeneratedAlias = (device: JsonObject): JsonObject => {
  const { alias } = device
  return isRecord(alias) && typeof alias['name'] === 'string' && !alias['name'].startsWith('ua-')
    ? omit(device, ['alias'])
    : device
}

/**
 * What libvirt keeps of an element that it reads into a domain at rest, beyond the spelling of single values: it leaves out what does
 * not count beside the other fields, and what is a default by its own lights. Each function gets the element in libvirt's spelling.
 * What libvirt alone tells, while a VM runs, is marked `live` in the description instead.
 */
const kept: Kept = {
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
  ...video,
  'devices.memballoon': (balloon) => omit(balloon, balloon['model'] === 'none' ? ['address'] : []),
  'devices.iommu.driver': (driver) => withoutZeros(driver),
  'memoryBacking.allocation': (allocation) => withoutZeros(allocation),
  'devices.tpms.backend': (backend) =>
    omit(backend, [
      ...(backend['persistentState'] === false ? ['persistentState'] : []),
      ...(backend['type'] === 'passthrough' ? ['version'] : []),
    ]),
  // Only a named model is matched.
  cpu: (cpu) => omit(cpu, cpu['mode'] === undefined || cpu['mode'] === 'custom' ? [] : ['match']),
  'numatune.memory': (memory) => omit(memory, memory['placement'] === 'static' ? ['placement'] : []),
  devices: (devices) => omit(devices, isEmpty(devices['redirfilter']) ? ['redirfilter'] : []),
  'os.bootmenu': (menu) => omit(menu, menu['enable'] === false ? ['timeout'] : []),
  'devices.redirfilter.usbdevs': (rule) =>
    omit(
      rule,
      // -1 is for any, which is what libvirt says with nothing.
      ['class', 'vendor', 'product', 'version'].filter((key) => rule[key] === -1 || rule[key] === '-1'),
    ),
}
