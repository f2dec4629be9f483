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

const characters = ['serials', 'parallels', 'consoles', 'channels', 'redirdevs', 'smartcards']

/** What makes no sense without, and libvirt has no default for: what stands at a path has these fields, if it is there at all. */
const neededAt: { readonly [path: string]: readonly string[] } = {
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
  'cputune.memorytunes[]': ['vcpus'],
  'cputune.memorytunes[].nodes[]': ['id', 'bandwidth'],
  'blkiotune.devices[]': ['path'],
  'throttlegroups.throttlegroups[]': ['groupName'],
  'cpu.numa.cells[].distances': ['siblings'],
  'cpu.numa.cells[].distances.siblings[]': ['value'],
  'cpu.numa.cells[].caches[]': ['level', 'associativity', 'policy', 'size', 'line'],
  'cpu.numa.cells[].caches[].size': ['value'],
  'cpu.numa.cells[].caches[].line': ['value'],
  'cpu.numa.interconnects.latencies[]': ['initiator', 'target', 'type', 'value'],
  'cpu.numa.interconnects.bandwidths[]': ['initiator', 'target', 'type', 'value'],
  'os.boots[]': ['dev'],
  'os.acpi.tables[]': ['type'],
  'os.firmwareSelection.features[]': ['name', 'enabled'],
  ...Object.fromEntries(toggles.map((path) => [`features.${path}`, ['state']])),
  'idmap.uids[]': ['start', 'target', 'count'],
  'idmap.gids[]': ['start', 'target', 'count'],
  'perf.events[]': ['name', 'enabled'],
  ...Object.fromEntries(characters.map((kind) => [`devices.${kind}[].log`, ['file']])),
  'devices.disks[].driver.iothreads.iothreads[]': ['id'],
  'devices.disks[].source.cookies.cookies[]': ['name', 'value'],
  'devices.disks[].source.slices': ['slice'],
  'devices.disks[].source.slices.slice': ['type', 'offset', 'size'],
  'devices.disks[].source.dataStore': ['format', 'source'],
  'devices.controllers[].driver.iothreads.iothreads[]': ['id'],
  'devices.graphics[].listens[]': ['type'],
  'devices.graphics[].channels[]': ['name', 'mode'],
  'devices.audios[]': ['id', 'type'],
  'devices.watchdogs[]': ['model'],
  'devices.memballoon': ['model'],
  'devices.memballoon.stats': ['period'],
  'devices.cryptos[]': ['model', 'type'],
  'devices.rngs[].rate': ['bytes'],
  'devices.pstore': ['backend', 'size'],
  'devices.leases[]': ['lockspace', 'key'],
  'devices.redirfilter.usbdevs[]': ['allow'],
  'devices.hostdevs[].source.vendor': ['id'],
  'devices.hostdevs[].source.product': ['id'],
  'qemuCommandline.args[]': ['value'],
  'qemuCommandline.envs[]': ['name'],
  'qemuOverride.devices[]': ['alias'],
  'qemuOverride.devices[].frontend.properties[]': ['name', 'type'],
}

/** The paths as a tree, so that what they share is looked at once. */
interface Node {
  readonly needed: string[]
  readonly below: { readonly key: string; readonly node: Node }[]
}

const tree = ((): Node => {
  const root: Node = { needed: [], below: [] }
  for (const [path, keys] of Object.entries(neededAt)) {
    let node = root
    for (const key of path.replaceAll('[]', '').split('.')) {
      const known = node.below.find((one) => one.key === key)
      const next = known?.node ?? { needed: [], below: [] }
      if (!known) node.below.push({ key, node: next })
      node = next
    }
    node.needed.push(...keys)
  }
  return root
})()

/** @param findings to which those are put that are missing */
function findMissing(value: unknown, at: string, node: Node, findings: Finding[]): void {
  if (Array.isArray(value)) {
    for (const [index, item] of value.entries()) findMissing(item, `${at}[${index}]`, node, findings)
    return
  }
  if (!isRecord(value)) return
  for (const key of node.needed) {
    const given = value[key]
    if (given === undefined || given === '') findings.push(required(`${at}.${key}`, 'must be given'))
  }
  for (const { key, node: below } of node.below) {
    const held = value[key]
    if (held !== undefined) findMissing(held, `${at}.${key}`, below, findings)
  }
}

export const requiredFields: Rule = {
  id: 'required-field',
  description: 'What says nothing without one of its fields, and has no default for it, has the field.',
  check({ domain }) {
    const findings: Finding[] = []
    findMissing(domain, 'spec.domain', tree, findings)
    return findings
  },
  example: example(
    { devices: { watchdogs: [{ action: 'reset' }] } },
    { devices: { watchdogs: [{ model: 'i6300esb', action: 'reset' }] } },
  ),
}
