import { elementOf, type Element, type Field } from '../../api/domain/description.ts'
import { domain } from '../../api/domain/domain.ts'
import { isRecord } from '../../api/schema.ts'
import { required } from './finding.ts'
import { example, type Finding, type Rule } from './rule.ts'

const toggles = [
  'hyperv.relaxed',
  'hyperv.vapic',
  'hyperv.spinlocks',
  'hyperv.vpindex',
  'hyperv.runtime',
  'hyperv.synic',
  'hyperv.stimer',
  'hyperv.stimer.direct',
  'hyperv.reset',
  'hyperv.vendorId',
  'hyperv.frequencies',
  'hyperv.reenlightenment',
  'hyperv.tlbflush',
  'hyperv.tlbflush.direct',
  'hyperv.tlbflush.extended',
  'hyperv.ipi',
  'hyperv.evmcs',
  'hyperv.avic',
  'hyperv.emsrBitmap',
  'hyperv.xmmInput',
  'kvm.hidden',
  'kvm.hintDedicated',
  'kvm.pollControl',
  'kvm.pvIpi',
  'kvm.dirtyRing',
]

/**
 * Fields that must be set if the element at the path exists, because libvirt or its schema requires them and has no
 * default. A path identifies the description of an element, which devices share: a requirement under one alias applies
 * to all.
 */
const neededAt: { readonly [path: string]: readonly string[] } = {
  ...Object.fromEntries(['hardLimit', 'softLimit', 'swapHardLimit'].map((limit) => [`memtune.${limit}`, ['value']])),
  vcpu: ['value'],
  'vcpus.vcpus[]': ['enabled'],
  'cputune.vcpupins[]': ['cpuset'],
  'cputune.iothreadpins[]': ['cpuset'],
  'cputune.emulatorpin': ['cpuset'],
  'cputune.vcpuscheds[]': ['vcpus', 'scheduler'],
  'cputune.iothreadscheds[]': ['iothreads', 'scheduler'],
  'cputune.emulatorsched': ['scheduler'],
  'cputune.cachetunes[]': ['vcpus'],
  'cputune.cachetunes[].caches[]': ['id', 'level', 'type', 'size'],
  'cputune.cachetunes[].monitors[]': ['level', 'vcpus'],
  'cputune.memorytunes[]': ['vcpus'],
  'cputune.memorytunes[].nodes[]': ['id', 'bandwidth'],
  'cputune.memorytunes[].monitors[]': ['vcpus'],
  'memoryBacking.access': ['mode'],
  'blkiotune.devices[]': ['path'],
  'throttlegroups.throttlegroups[]': ['groupName'],
  'resource.fibrechannel': ['appid'],
  'sysinfos[]': ['type'],
  ...Object.fromEntries(
    ['bios', 'system', 'baseBoards[]', 'chassis'].flatMap((table) => [
      [`sysinfos[].${table}`, ['entries']],
      [`sysinfos[].${table}.entries[]`, ['name']],
    ]),
  ),
  'sysinfos[].oemStrings': ['entries'],
  'os.boots[]': ['dev'],
  'os.bootmenu': ['enable'],
  'os.smbios': ['mode'],
  'os.acpi.tables[]': ['type', 'value'],
  'os.firmwareSelection.features[]': ['name', 'enabled'],
  ...Object.fromEntries(toggles.map((path) => [`features.${path}`, ['state']])),
  'features.smm.tseg': ['value'],
  'features.ioapic': ['driver'],
  'features.msrs': ['unknown'],
  'features.tcg.tbCache': ['value'],
  'cpu.cache': ['mode'],
  'cpu.maxphysaddr': ['mode'],
  'cpu.numa': ['cells'],
  'cpu.numa.cells[].distances': ['siblings'],
  'cpu.numa.cells[].distances.siblings[]': ['value'],
  'cpu.numa.cells[].caches[]': ['level', 'associativity', 'policy', 'size', 'line'],
  'cpu.numa.cells[].caches[].size': ['value'],
  'cpu.numa.cells[].caches[].line': ['value'],
  'cpu.numa.interconnects.latencies[]': ['initiator', 'target', 'type', 'value'],
  'cpu.numa.interconnects.bandwidths[]': ['initiator', 'target', 'type', 'value'],
  'idmap.uids[]': ['start', 'target', 'count'],
  'idmap.gids[]': ['start', 'target', 'count'],
  'perf.events[]': ['name', 'enabled'],
  'devices.disks[].driver.iothreads': ['iothreads'],
  'devices.disks[].driver.iothreads.iothreads[]': ['id'],
  'devices.disks[].driver.metadataCache.maxSize': ['value'],
  'devices.disks[].source.auth': ['username', 'secret'],
  'devices.disks[].source.auth.secret': ['type'],
  'devices.disks[].source.config': ['file'],
  'devices.disks[].source.cookies.cookies[]': ['name', 'value'],
  'devices.disks[].source.dataStore': ['format', 'source'],
  'devices.disks[].source.encryption': ['format'],
  'devices.disks[].source.encryption.cipher': ['name', 'size'],
  'devices.disks[].source.encryption.ivgen': ['name'],
  'devices.disks[].source.encryption.secrets[]': ['type'],
  'devices.disks[].source.initiator': ['iqn'],
  'devices.disks[].source.initiator.iqn': ['name'],
  'devices.disks[].source.knownHosts': ['path'],
  'devices.disks[].source.readahead': ['size'],
  'devices.disks[].source.reservations': ['managed'],
  'devices.disks[].source.reservations.source': ['type', 'path', 'mode'],
  'devices.disks[].source.slices': ['slice'],
  'devices.disks[].source.slices.slice': ['type', 'offset', 'size'],
  'devices.disks[].source.snapshot': ['name'],
  'devices.disks[].source.ssl': ['verify'],
  'devices.disks[].source.timeout': ['seconds'],
  'devices.disks[].geometry': ['cyls', 'heads', 'secs'],
  'devices.disks[].boot': ['order'],
  'devices.disks[].alias': ['name'],
  'devices.disks[].address': ['type'],
  'devices.controllers[].modelName': ['name'],
  'devices.controllers[].pcihole64': ['value'],
  'devices.controllers[].master': ['startport'],
  'devices.interfaces[].source.local': ['address', 'port'],
  'devices.interfaces[].source.vendor': ['id'],
  'devices.interfaces[].source.product': ['id'],
  'devices.interfaces[].source.ips[]': ['address'],
  'devices.interfaces[].source.routes[]': ['address', 'gateway'],
  'devices.interfaces[].ips[]': ['address'],
  'devices.interfaces[].script': ['path'],
  'devices.interfaces[].downscript': ['path'],
  'devices.interfaces[].vlan': ['tags'],
  'devices.interfaces[].vlan.tags[]': ['id'],
  'devices.interfaces[].portForwards[]': ['proto'],
  'devices.interfaces[].filterref': ['filter'],
  'devices.interfaces[].filterref.parameters[]': ['name', 'value'],
  'devices.interfaces[].link': ['state'],
  'devices.interfaces[].mtu': ['size'],
  'devices.interfaces[].teaming': ['type'],
  'devices.serials[].log': ['file'],
  'devices.tpms[].backend.encryption': ['secret'],
  'devices.tpms[].backend.source': ['type', 'path'],
  'devices.graphics[].listens[]': ['type'],
  'devices.graphics[].channels[]': ['name', 'mode'],
  'devices.graphics[].image': ['compression'],
  'devices.graphics[].jpeg': ['compression'],
  'devices.graphics[].zlib': ['compression'],
  'devices.graphics[].playback': ['compression'],
  'devices.graphics[].streaming': ['mode'],
  'devices.graphics[].mouse': ['mode'],
  'devices.graphics[].clipboard': ['copypaste'],
  'devices.graphics[].filetransfer': ['enable'],
  'devices.graphics[].audio': ['id'],
  'devices.sounds[].codecs[]': ['type'],
  'devices.sounds[].audio': ['id'],
  'devices.audios[]': ['id', 'type'],
  'devices.videos[].model.resolution': ['x', 'y'],
  'devices.hostdevs[].source.vendor': ['id'],
  'devices.hostdevs[].source.product': ['id'],
  'devices.hostdevs[].source.hosts[]': ['name'],
  'devices.hostdevs[].source.adapter.parentaddr': ['address'],
  'devices.redirdevs[]': ['type'],
  'devices.redirfilter.usbdevs[]': ['allow'],
  'devices.hubs[]': ['type'],
  'devices.watchdogs[]': ['model'],
  'devices.memballoon': ['model'],
  'devices.memballoon.stats': ['period'],
  'devices.cryptos[]': ['model', 'type'],
  'devices.rngs[].rate': ['bytes'],
  'devices.shmems[].size': ['value'],
  'devices.memories[].source.pagesize': ['value'],
  'devices.memories[].source.alignsize': ['value'],
  'devices.memories[].target.label': ['size'],
  'devices.memories[].target.label.size': ['value'],
  'devices.memories[].target.requested': ['value'],
  'devices.memories[].target.address': ['base'],
  'devices.pstore': ['backend', 'size'],
  'devices.pstore.size': ['value'],
  'devices.leases[]': ['lockspace', 'key'],
  'qemuCommandline.args[]': ['value'],
  'qemuCommandline.envs[]': ['name'],
  'qemuCapabilities.adds[]': ['capability'],
  qemuDeprecation: ['behavior'],
  'qemuOverride.devices[]': ['alias'],
  'qemuOverride.devices[].frontend.properties[]': ['name', 'type'],
  'keywrap.ciphers[]': ['name', 'state'],
}

/** An element: the fields that it needs, and the elements below it, both by their keys. */
interface Node {
  readonly needed: Map<string, Field>
  readonly below: Map<string, Node>
}

const nodes = new Map<Element, Node>()

const nodeOf = (element: Element): Node => {
  const known = nodes.get(element)
  if (known) return known
  const node: Node = { needed: new Map(), below: new Map() }
  nodes.set(element, node)
  for (const [key, field] of Object.entries(element.fields)) {
    if (field.at !== 'child' && field.at !== 'children') continue
    const below = nodeOf(elementOf(field))
    node.below.set(key, below)
    const single = singleOf(field)
    if (single !== undefined) node.below.set(single, below)
  }
  return node
}

const singleOf = (field: Field): string | undefined => (field.at === 'children' ? field.single : undefined)

const tree = ((): Node => {
  const root = nodeOf(domain)
  for (const [path, keys] of Object.entries(neededAt)) {
    const element = path.replaceAll('[]', '').split('.').reduce(elementAt, domain)
    for (const key of keys) nodeOf(element).needed.set(key, fieldOf(element, key))
  }
  withoutIdle(root)
  return root
})()

function fieldOf(element: Element, key: string): Field {
  const { [key]: field } = element.fields
  if (!field) throw new Error(`the description has no field ${key}`)
  return field
}

function elementAt(element: Element, key: string): Element {
  const field = fieldOf(element, key)
  if (field.at !== 'child' && field.at !== 'children') throw new Error(`${key} is not an element`)
  return elementOf(field)
}

/**
 * Removes the branches without required fields. Elements can be recursive, so those with required fields are found
 * first.
 */
function withoutIdle(root: Node): void {
  const busy = new Set([...nodes.values()].filter(({ needed }) => needed.size > 0))
  for (let size = 0; size !== busy.size;) {
    size = busy.size
    for (const node of nodes.values()) if ([...node.below.values()].some((below) => busy.has(below))) busy.add(node)
  }
  for (const { below } of [root, ...busy]) for (const [key, node] of below) if (!busy.has(node)) below.delete(key)
}

/** In XML, an element without text equals one with an empty text; an attribute can be empty. */
const isMissing = (value: unknown, { at }: Field): boolean =>
  value === undefined || (value === '' && at !== 'attribute') || (Array.isArray(value) && value.length === 0)

/** @param findings receives one finding for each missing field */
function findMissing(value: unknown, at: string, node: Node, findings: Finding[]): void {
  if (Array.isArray(value)) {
    for (const [index, item] of value.entries()) findMissing(item, `${at}[${index}]`, node, findings)
    return
  }
  if (!isRecord(value)) return
  for (const [key, field] of node.needed) {
    const single = singleOf(field)
    if (isMissing(value[key], field) && (single === undefined || isMissing(value[single], field)))
      findings.push(required(`${at}.${key}`, 'must be set'))
  }
  for (const key of Object.keys(value)) {
    const below = node.below.get(key)
    if (below) findMissing(value[key], `${at}.${key}`, below, findings)
  }
}

export const requiredFields: Rule = {
  id: 'required-field',
  description: 'Fields that are required and have no default must be set.',
  check(subject) {
    const findings: Finding[] = []
    findMissing(subject.domain, 'spec.domain', tree, findings)
    return findings
  },
  example: example(
    { devices: { watchdogs: [{ action: 'reset' }] } },
    { devices: { watchdogs: [{ model: 'i6300esb', action: 'reset' }] } },
  ),
}
