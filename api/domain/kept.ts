import { isRecord } from '../schema.ts'
import { chardevUnion } from './chardev-source.ts'

type JsonObject = { readonly [key: string]: unknown }

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

/** With nothing in it, nor in its lists. */
const isEmpty = (value: unknown): boolean =>
  isRecord(value) && Object.values(value).every((member) => Array.isArray(member) && member.length === 0)

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
const kept: { readonly [path: string]: (json: JsonObject) => JsonObject } = {
  'features.hyperv.spinlocks': (spinlocks) => omit(spinlocks, spinlocks['state'] === false ? ['retries'] : []),
  'features.hyperv.stimer': (stimer) => withoutOff(stimer, ['direct']),
  'features.hyperv.tlbflush': (flush) => withoutOff(flush, ['direct', 'extended']),
  'devices.memballoon': (balloon) => omit(balloon, balloon['model'] === 'none' ? ['address'] : []),
  'devices.memories': (memory) => keptMemory(memory),
  'devices.iommu.driver': (driver) => withoutZeros(driver),
  'devices.disks.transient': (transient) =>
    omit(transient, transient['shareBacking'] === false ? ['shareBacking'] : []),
  'features.hyperv.vendorId': (vendor) => omit(vendor, vendor['state'] === false ? ['value'] : []),
  'features.kvm.dirtyRing': (ring) => omit(ring, ring['state'] === false ? ['size'] : []),
  'memoryBacking.allocation': (allocation) => withoutZeros(allocation),
  'devices.tpms.backend': (backend) =>
    omit(backend, [
      ...(backend['persistentState'] === false ? ['persistentState'] : []),
      ...(backend['type'] === 'passthrough' ? ['version'] : []),
    ]),
  'devices.redirdevs.boot': (boot) => upperCase(boot, 'loadparm'),
  'features.smm': (smm) => omit(smm, smm['state'] === false ? ['tseg'] : []),
  // Only a named model is matched.
  cpu: (cpu) => omit(cpu, cpu['mode'] === undefined || cpu['mode'] === 'custom' ? [] : ['match']),
  'devices.sounds': (sound) => keptSound(sound),
  clock: (clock) => keptClock(clock),
  'numatune.memory': (memory) => omit(memory, memory['placement'] === 'static' ? ['placement'] : []),
  'devices.controllers': (controller) => keptController(controller),
  'devices.disks': (disk) => keptDisk(disk),
  'devices.disks.boot': (boot) => upperCase(boot, 'loadparm'),
  'devices.interfaces.boot': (boot) => upperCase(boot, 'loadparm'),
  'devices.hostdevs.boot': (boot) => upperCase(boot, 'loadparm'),
  'devices.disks.driver': (driver) => keptDiskDriver(driver),
  'devices.disks.iotune': (iotune) => withoutZeros(iotune),
  'devices.controllers.driver': (driver) => withoutZeros(driver),
  'devices.filesystems': (filesystem) => keptFilesystem(filesystem),
  'devices.interfaces': (nic) => keptInterface(nic),
  'devices.smartcards': (device) => keptCharacter(device),
  'devices.serials': (device) => keptCharacter(device),
  'devices.parallels': (device) => keptCharacter(device),
  'devices.consoles': (device) => keptCharacter(device),
  'devices.channels': (device) => withoutDefaultPath(keptCharacter(device)),
  'devices.redirdevs': (device) => keptCharacter(device),
  'devices.rngs.backend': (backend) => keptCharacter(backend),
  'devices.graphics': (graphics) => keptGraphics(graphics),
  'devices.videos.model': (model) => keptVideoModel(model),
  'devices.hostdevs': (hostdev) =>
    within(omit(hostdev, hostdev['type'] === 'scsi' ? [] : ['readonly', 'shareable']), 'source', iscsiUnit),
  'devices.audios.input': (direction) => withFixedSettings(direction),
  'devices.audios.output': (direction) => withFixedSettings(direction),
  devices: (devices) => omit(devices, isEmpty(devices['redirfilter']) ? ['redirfilter'] : []),
  'os.bootmenu': (menu) => omit(menu, menu['enable'] === false ? ['timeout'] : []),
  'devices.redirfilter.usbdevs': (rule) =>
    omit(
      rule,
      // -1 is for any, which is what libvirt says with nothing.
      ['class', 'vendor', 'product', 'version'].filter((key) => rule[key] === -1 || rule[key] === '-1'),
    ),
}

const omit = (json: JsonObject, keys: readonly string[]): JsonObject =>
  keys.some((key) => Object.hasOwn(json, key))
    ? Object.fromEntries(Object.entries(json).filter(([key]) => !keys.includes(key)))
    : json

/** With one child element changed, if it is there. */
const within = (json: JsonObject, key: string, change: (child: JsonObject) => JsonObject): JsonObject => {
  const child = json[key]
  return isRecord(child) ? { ...json, [key]: change(child) } : json
}

/** For these, 0 is for what is there without. */
const withoutZeros = (json: JsonObject): JsonObject =>
  omit(
    json,
    Object.keys(json).filter((key) => json[key] === 0),
  )

/** Parts that are off, or whose whole is, are not named. */
const withoutOff = (json: JsonObject, keys: readonly string[]): JsonObject =>
  omit(
    json,
    keys.filter((key) => {
      const part = json[key]
      return json['state'] === false || (isRecord(part) && part['state'] === false)
    }),
  )

/** What counts of a memory device, by its model. */
const ofMemory: {
  readonly [model: string]: { readonly source: readonly string[]; readonly target: readonly string[] }
} = {
  dimm: { source: ['pagesize', 'nodemask'], target: ['size', 'node'] },
  nvdimm: { source: ['path', 'alignsize', 'pmem'], target: ['size', 'node', 'label', 'readonly'] },
  'virtio-pmem': { source: ['path'], target: ['size', 'address'] },
  'virtio-mem': {
    source: ['pagesize', 'nodemask'],
    target: ['size', 'node', 'block', 'requested', 'address', 'dynamicMemslots'],
  },
  'sgx-epc': { source: ['nodemask'], target: ['size', 'node'] },
}

const keptMemory = (memory: JsonObject): JsonObject => {
  const { model, source } = memory
  const known = typeof model === 'string' ? ofMemory[model] : undefined
  if (!known) return memory
  const own = within(memory, 'target', (target) => only(target, known.target))
  const kept = isRecord(source) ? only(source, known.source) : {}
  const result = omit(own, ['source', ...(model === 'nvdimm' ? [] : ['uuid'])])
  return Object.keys(kept).length === 0 ? result : { ...result, source: kept }
}

const only = (json: JsonObject, keys: readonly string[]): JsonObject =>
  omit(
    json,
    Object.keys(json).filter((key) => !keys.includes(key)),
  )

const upperCase = (json: JsonObject, key: string): JsonObject => {
  const value = json[key]
  return typeof value === 'string' ? { ...json, [key]: value.toUpperCase() } : json
}

/** Each kind of card has properties of its own. */
const keptSound = (sound: JsonObject): JsonObject => {
  const { model } = sound
  const isIch = model === 'ich6' || model === 'ich9'
  return omit(sound, [
    ...(isIch ? [] : ['codecs']),
    ...(model === 'usb' ? [] : ['multichannel']),
    ...(model === 'virtio' ? [] : ['driver', 'streams']),
  ])
}

/** How often it is tried counts only where it is tried at all. */
const keptReconnect = (source: JsonObject): JsonObject => {
  const { reconnect } = source
  if (!isRecord(reconnect) || reconnect['enabled'] === true) return source
  return reconnect['enabled'] === undefined
    ? omit(source, ['reconnect'])
    : { ...source, reconnect: omit(reconnect, ['timeout']) }
}

/** Settings that are fixed are named, even where none is. */
const withFixedSettings = (direction: JsonObject): JsonObject =>
  direction['fixedSettings'] === true ? { ...direction, settings: direction['settings'] ?? {} } : direction

/** A clock that is put forward is one that the guest may set. */
const keptClock = (clock: JsonObject): JsonObject => {
  const { offset, adjustment } = clock
  return (offset === 'utc' || offset === 'localtime') && adjustment !== undefined && adjustment !== 'reset'
    ? { ...clock, offset: 'variable', basis: offset }
    : clock
}

/** `auto` is the model that a controller without one is given: on x86_64, this. */
const keptController = (controller: JsonObject): JsonObject =>
  controller['type'] === 'scsi' && controller['model'] === 'auto' ? { ...controller, model: 'lsilogic' } : controller

/** `aio` is an old word for a raw image. */
const keptDiskDriver = (driver: JsonObject): JsonObject => ({
  ...omit(driver, driver['cache'] === 'default' ? ['cache'] : []),
  ...(driver['type'] === 'aio' ? { type: 'raw' } : {}),
})

/** Types of disk that name a medium; the others name a process. */
const isMedium = new Set<unknown>(['file', 'block', 'dir', 'network', 'volume'])

const keptDisk = (disk: JsonObject): JsonObject => {
  const isReadonly = disk['readonly'] !== undefined
  let result = omit(disk, isReadonly && disk['snapshot'] === 'no' ? ['snapshot'] : [])
  // A drive without a medium is, to libvirt, an empty drive like any other.
  const hasMedium = disk['source'] !== undefined && !isEmpty(disk['source'])
  if (!hasMedium && isMedium.has(disk['type'])) result = { ...omit(result, ['source']), type: 'file' }
  result = within(result, 'source', (source) => withoutEmptyLabels(iscsiUnit(source)))
  return within(result, 'target', (target) =>
    omit(target, [...(target['tray'] === 'closed' ? ['tray'] : []), ...(target['bus'] === 'usb' ? [] : ['removable'])]),
  )
}

/** The first logical unit is meant where none is named. */
const iscsiUnit = (source: JsonObject): JsonObject => {
  const { protocol, name } = source
  return protocol === 'iscsi' && typeof name === 'string' && !name.includes('/')
    ? { ...source, name: `${name}/0` }
    : source
}

/** A label that only said that the source could not be labelled says nothing about the next start. */
const withoutEmptyLabels = (source: JsonObject): JsonObject => {
  const { seclabel } = source
  const isEmpty = isRecord(seclabel) && seclabel['label'] === undefined && seclabel['relabel'] === undefined
  return isEmpty ? omit(source, ['seclabel']) : source
}

/** Sizes of video memory are powers of two. */
const keptVideoModel = (model: JsonObject): JsonObject => ({
  ...model,
  ...Object.fromEntries(
    ['ram', 'vram', 'vram64', 'vgamem'].flatMap((key) => {
      const size = model[key]
      return typeof size === 'number' && size > 0 ? [[key, 2 ** Math.ceil(Math.log2(size))]] : []
    }),
  ),
})

/** A server of its own has properties of its own. */
const keptFilesystem = (filesystem: JsonObject): JsonObject => {
  const { driver } = filesystem
  const type = isRecord(driver) ? driver['type'] : undefined
  const own = omit(filesystem, type === 'virtiofs' ? [] : ['binary', 'idmap'])
  const served = type === undefined ? within(own, 'driver', (json) => omit(json, ['wrpolicy', 'format'])) : own
  return octalMode(octalMode(served, 'fmode'), 'dmode')
}

/** Octal, four digits wide. */
const octalMode = (filesystem: JsonObject, key: string): JsonObject => {
  const value = filesystem[key]
  return typeof value === 'string' && /^[0-7]{1,4}$/.test(value)
    ? { ...filesystem, [key]: value.padStart(4, '0') }
    : filesystem
}

/** The prefixes of names that libvirt makes up for the outer end, anew at each start. */
const generatedNames = ['vnet', 'macvtap', 'macvlan']

/** Cards that libvirt knows under one spelling, whatever the case in which they are written. */
const knownCards = [
  'netfront',
  'rtl8139',
  'virtio',
  'e1000',
  'e1000e',
  'igb',
  'virtio-transitional',
  'virtio-non-transitional',
  'usb-net',
  'spapr-vlan',
  'lan9118',
  'scm91c111',
  'vlance',
  'vmxnet',
  'vmxnet2',
  'vmxnet3',
  'Am79C970A',
  'Am79C973',
  '82540EM',
  '82545EM',
  '82543GC',
]

const keptInterface = (nic: JsonObject): JsonObject => {
  const { type, source, target } = nic
  const card = isRecord(nic['model']) ? nic['model']['type'] : undefined
  const model =
    typeof card === 'string' ? (knownCards.find((known) => known.toLowerCase() === card.toLowerCase()) ?? card) : card
  const isVirtio = typeof model === 'string' && /^virtio(?:-(?:non-)?transitional)?$/.test(model)
  let result = within(nic, 'model', (json) => (model === undefined ? json : { ...json, type: model }))
  // Options of the driver are those of virtio, or say how a device of the node is assigned.
  if (type !== 'hostdev' && !isVirtio) result = omit(result, ['driver'])
  if (nic['managed'] === false) result = omit(result, ['managed'])
  result = within(result, 'backend', (backend) => omit(backend, backend['type'] === 'default' ? ['type'] : []))
  if (type === 'hostdev') {
    result = within(result, 'driver', (driver) =>
      omit(
        driver,
        Object.keys(driver).filter((key) => key !== 'name' && key !== 'model'),
      ),
    )
  }
  result = within(result, 'driver', (driver) => omit(driver, driver['queues'] === 1 ? ['queues'] : []))
  if (!isVirtio) result = within(result, 'backend', (backend) => omit(backend, ['vhost']))
  if (typeof type === 'string' && !['ethernet', 'network', 'bridge'].includes(type))
    result = omit(result, ['filterref'])
  if (type === 'network' && isRecord(source)) result = { ...result, source: omit(source, ['portid']) }
  const dev = isRecord(target) ? target['dev'] : undefined
  if (typeof dev === 'string' && generatedNames.some((prefix) => dev.startsWith(prefix))) {
    result = within(result, 'target', (json) => omit(json, ['dev']))
  }
  return omit(
    result,
    ['driver', 'backend', 'target'].filter((key) => {
      const child = result[key]
      return isRecord(child) && Object.keys(child).length === 0
    }),
  )
}

/** Each type has its own properties; a socket without a path has none, and a source of which nothing is left is not named. */
const keptCharacter = (device: JsonObject): JsonObject => {
  const { type, source, sources } = device
  const owned = typeof type === 'string' ? chardevUnion.branches?.[type] : undefined
  if (!owned) return device
  // One label has a key of its own. The path of a pseudo terminal is another one at each start.
  const keys = new Set(
    owned.flatMap((key) => (key === 'sources.seclabels' ? ['seclabels', 'seclabel'] : [key.replace('sources.', '')])),
  )
  const keptSource = (one: unknown): unknown =>
    isRecord(one) ? keptReconnect(Object.fromEntries(Object.entries(one).filter(([key]) => keys.has(key)))) : one
  if (type === 'pty') keys.delete('path')
  const result = omit(device, keys.has('protocol') ? [] : ['protocol'])
  if (Array.isArray(sources)) return { ...result, sources: sources.map(keptSource) }
  if (!isRecord(source)) return result
  const left = keptSource(source)
  const isNothing = !isRecord(left) || Object.keys(left).length === 0 || (type === 'unix' && left['path'] === undefined)
  return isNothing ? omit(result, ['source']) : { ...result, source: left }
}

/** libvirt makes up the path of a channel at each start, and knows its own paths again. */
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

/** Without a port, SPICE listens nowhere, whatever address is said. */
const hasSpicePort = ({ port = 0, tlsPort = 0, autoport }: JsonObject): boolean =>
  autoport === true || port !== 0 || tlsPort !== 0

/** A server without a port has none of the properties of ports; what is chosen at start is not kept. */
const keptGraphics = (graphics: JsonObject): JsonObject => {
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
