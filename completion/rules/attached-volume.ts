import { diskIndex } from '../../api/domain/order.ts'
import { isRecord } from '../../api/schema.ts'
import { longestVirtioSerial, serialOf, type AttachedVolume } from '../../api/attached-volume.ts'
import type { VirtualMachineSpec } from '../../api/virtual-machine.ts'
import { numberOf } from '../defaults/reading.ts'
import { list } from './device.ts'
import { duplicate, forbidden, invalid, tooMany, unsupported } from './finding.ts'
import type { Finding, Rule, Subject } from './rule.ts'

/** libvirt places seven disks on a SCSI controller, by the letters of their names. */
const disksPerController = 7

/** The prefix of the names of disks on each bus to which a running guest can get one. */
export const prefixes: ReadonlyMap<string, string> = new Map([
  ['virtio', 'vd'],
  ['scsi', 'sd'],
])

/** A finding about the item with this index. */
export interface AttachedFinding {
  readonly index: number
  readonly finding: Finding
}

/**
 * What the spec as a whole does not allow its attached volumes.
 * @param isOld which of them a running guest may have: they keep what others take again, wherever they are in the list
 */
export function* attachedFindings(
  { spec, domain }: Pick<Subject, 'spec' | 'domain'>,
  isOld: (volume: AttachedVolume) => boolean = () => false,
): Iterable<AttachedFinding> {
  const { attachedVolumes = [], volumes = [] } = spec
  if (attachedVolumes.length === 0) return
  const names = new Map(volumes.map(({ name }, index) => [name, `spec.volumes[${index}]`]))
  const claims = new Map(
    volumes.flatMap(({ persistentVolumeClaim: claim }, index) =>
      claim === undefined ? [] : [[claim.claimName, `spec.volumes[${index}]`] as const],
    ),
  )
  const devs = new Map(
    list(domain, 'disks').flatMap(({ target }, index) =>
      target?.dev === undefined ? [] : [[target.dev, `spec.domain.devices.disks[${index}]`] as const],
    ),
  )
  const serials = new Map(
    list(domain, 'disks').flatMap(({ serial, target }, index) =>
      serial === undefined ? [] : [[seenByGuest(serial, target?.bus), `spec.domain.devices.disks[${index}]`] as const],
    ),
  )
  const controllers = new Set(
    list(domain, 'controllers').flatMap(({ type, index }) => (type === 'scsi' ? [numberOf(index) ?? 0] : [])),
  )
  const ports = portsOf({ domain })
  let onPorts = 0
  const entries = [...attachedVolumes.entries()].toSorted(([, a], [, b]) => Number(isOld(b)) - Number(isOld(a)))
  for (const [index, volume] of entries) {
    const { name, persistentVolumeClaim: claim, target = {}, serial } = volume
    const at = `spec.attachedVolumes[${index}]`
    const { dev = '', bus = '' } = target
    const taken = (seen: Map<string, string>, field: string, value: string, what: string): AttachedFinding[] => {
      const other = seen.get(value)
      seen.set(value, other ?? at)
      return other === undefined ? [] : [{ index, finding: duplicate(field, value, `${other} ${what}`) }]
    }
    const sameName = taken(names, `${at}.name`, name, 'already has this name')
    yield* sameName
    yield* taken(claims, `${at}.persistentVolumeClaim.claimName`, claim.claimName, 'already uses this claim')
    yield* taken(devs, `${at}.target.dev`, dev, 'already is this disk')
    // A guest can take disks with the same serial number for two paths to one disk.
    if (serial !== undefined || sameName.length === 0)
      yield* taken(serials, `${at}.serial`, serialOf(volume), 'already has this serial number')
    const prefix = prefixes.get(bus)
    if (prefix === undefined) {
      const message = 'cannot get a disk while the guest runs: libvirt hot-plugs disks only on virtio and scsi here'
      yield { index, finding: unsupported(`${at}.target.bus`, bus, message, 'virtio, or scsi with a SCSI controller') }
      continue
    }
    if (!dev.startsWith(prefix) || diskIndex(dev) < 0) {
      const message = `must be ${prefix} and letters on bus ${bus}`
      yield { index, finding: invalid(`${at}.target.dev`, dev, message, `e.g. ${prefix}b`) }
      continue
    }
    if (bus === 'virtio') {
      if (serial !== undefined && serial.length > longestVirtioSerial) {
        const message = `must be at most ${longestVirtioSerial} characters on bus virtio`
        yield { index, finding: invalid(`${at}.serial`, serial, message) }
      }
      onPorts += 1
      if (ports !== undefined && onPorts > ports.free) {
        const wanted = moreRoom(ports.all + onPorts - ports.free)
        yield { index, finding: tooMany(`${at}.target.bus`, bus, portsMessage(ports.free), wanted) }
      }
    }
    const controller = Math.floor(diskIndex(dev) / disksPerController)
    if (bus === 'scsi' && !controllers.has(controller)) {
      const message = `${dev} needs the SCSI controller with index ${controller}, which the domain does not have`
      const suggestion =
        controllers.size === 0
          ? 'add {type: scsi, model: virtio-scsi} to spec.domain.devices.controllers before the start, or use bus virtio'
          : `the first seven letters are on index 0, the next on 1; the domain has ${[...controllers].join(', ')}`
      yield { index, finding: forbidden(`${at}.target.bus`, bus, message, suggestion) }
    }
  }
}

/** A virtio disk transmits no more of it. */
const seenByGuest = (serial: string, bus: string | undefined): string =>
  bus === 'virtio' ? serial.slice(0, longestVirtioSerial) : serial

const portsMessage = (ports: number): string =>
  ports === 0
    ? 'needs a free PCI Express root port, and the domain has none'
    : `needs one free PCI Express root port for each disk, and the domain has ${ports}`

/** @param ports in all, because the devices of the domain take those that it states, too */
const moreRoom = (ports: number): string =>
  `state {type: pci, model: pcie-root-port} ${ports} times in spec.domain.devices.controllers before the start, or use bus scsi`

/** The root ports, and those to which nothing is connected; undefined for a machine without PCI Express. */
function portsOf({ domain }: Pick<Subject, 'domain'>): { readonly all: number; readonly free: number } | undefined {
  const controllers = list(domain, 'controllers').filter(({ type }) => type === 'pci')
  if (!controllers.some(({ model }) => model === 'pcie-root')) return undefined
  const used = new Set<number>()
  collectBuses(domain.devices, used)
  const ports = controllers.filter(({ model }) => model === 'pcie-root-port')
  return { all: ports.length, free: ports.filter(({ index }) => !used.has(numberOf(index) ?? -1)).length }
}

/** The PCI buses of the addresses in a value. */
function collectBuses(value: unknown, found: Set<number>): void {
  if (Array.isArray(value)) for (const item of value) collectBuses(item, found)
  if (!isRecord(value)) return
  for (const [key, item] of Object.entries(value)) {
    // The source of a host device has an address of the host.
    if (key === 'source') continue
    if (key === 'address' && isRecord(item) && item['type'] === 'pci') found.add(numberOf(item['bus'] as never) ?? 0)
    else if (typeof item === 'object') collectBuses(item, found)
  }
}

const attached = (target: object, more: Partial<VirtualMachineSpec> = {}): VirtualMachineSpec => ({
  domain: { devices: { disks: [{ source: { file: '/d' }, target: { dev: 'vda', bus: 'virtio' } }] } },
  attachedVolumes: [{ name: 'data', persistentVolumeClaim: { claimName: 'data' }, target }],
  ...more,
})

export const attachedVolume: Rule = {
  id: 'attached-volume',
  description:
    'An attached volume must have a name, a claim, a disk and a serial number (by default its name) of its own, on bus virtio or on a SCSI controller of the domain, and with a free PCI Express root port on a machine that needs one.',
  *check(subject) {
    for (const { finding } of attachedFindings(subject)) yield finding
  },
  example: {
    breaks: attached({ dev: 'vda', bus: 'virtio' }),
    holds: attached({ dev: 'vdb', bus: 'virtio' }),
  },
}
