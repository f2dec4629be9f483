import type { Domain } from '../../api/domain/domain.ts'
import { numberOf } from '../defaults/reading.ts'
import { eachDevice, list, type DeviceOf } from './device.ts'
import { duplicate, forbidden, invalid, notFound, required, unsupported } from './finding.ts'
import { example, type Finding, type Rule } from './rule.ts'

type Disk = DeviceOf<'disks'>

/** One disk, of a volume of the VM. */
const disk = (more: Disk, rest: Domain = {}): Domain => ({
  ...rest,
  devices: {
    ...rest.devices,
    disks: [{ type: 'file', source: { file: '/disk.img' }, target: { dev: 'vda' }, ...more }],
  },
})

/** What begins the name of a target; the last two are of hypervisors that are gone, and libvirt still reads them. */
const targetName = /^(?:fd|hd|sd|vd|xvd|ubd)[a-z]+(\d*)$/

export const diskTarget = eachDevice('disks')(
  'disk-target',
  'A disk has a target, named by its bus and a letter: `vda`, `sdb`; partitions have none of their own.',
  ({ target, device }, at) => {
    const { dev } = target ?? {}
    if (dev === undefined || dev === '')
      return [required(`${at}.target.dev`, 'must be given: it tells disks apart', 'e.g. vda, sdb')]
    const match = targetName.exec(dev)
    if (!match) return [invalid(`${at}.target.dev`, dev, 'must be fd, hd, sd or vd and a letter, e.g. vda')]
    const whole = dev.replace(/\d+$/, '')
    if (match[1] !== '' && Number(match[1]) !== 0) {
      return [
        invalid(
          `${at}.target.dev`,
          dev,
          'is a partition, and only a whole disk can be a target',
          `did you mean "${whole}"?`,
        ),
      ]
    }
    if (device === 'floppy' && !dev.startsWith('fd')) {
      return [invalid(`${at}.target.dev`, dev, 'must begin with fd, since device is floppy')]
    }
    return device !== 'floppy' && dev.startsWith('fd')
      ? [invalid(`${at}.target.dev`, dev, 'begins with fd, and that is for floppy drives only')]
      : []
  },
  example(disk({ target: { dev: 'vdb1' } }), disk({ target: { dev: 'vdb' } })),
)

export const diskTargetUnique: Rule = {
  id: 'disk-target-unique',
  description: 'No two disks have the same target, whatever their bus.',
  *check({ domain }) {
    const seen = new Map<string, number>()
    for (const [index, { target }] of list(domain, 'disks').entries()) {
      if (target?.dev === undefined) continue
      const other = seen.get(target.dev)
      if (other === undefined) seen.set(target.dev, index)
      else {
        const message = `is the target of devices.disks[${other}] as well`
        yield duplicate(`spec.domain.devices.disks[${index}].target.dev`, target.dev, message)
      }
    }
  },
  example: example(
    { devices: { disks: ['sda', 'sda'].map((dev) => ({ device: 'cdrom' as const, target: { dev } })) } },
    { devices: { disks: ['sda', 'sdb'].map((dev) => ({ device: 'cdrom' as const, target: { dev } })) } },
  ),
}

export const diskBus = eachDevice('disks')(
  'disk-bus',
  'A floppy drive is on bus fdc and nothing else is; virtio takes no media out; the machine has the bus.',
  ({ target, device, type }, at) => {
    const { bus } = target ?? {}
    const field = `${at}.target.bus`
    if (bus === undefined) return []
    if (device === 'floppy') return bus === 'fdc' ? [] : [invalid(field, bus, 'must be fdc for a floppy drive')]
    if (bus === 'fdc') return [invalid(field, bus, 'is for floppy drives only', 'device: floppy, or another bus')]
    if (bus === 'virtio' && device === 'cdrom') {
      return [
        invalid(
          field,
          bus,
          'cannot have a CD-ROM drive: virtio disks have no media to take out',
          'did you mean "sata"?',
        ),
      ]
    }
    return bus !== 'virtio' && (type === 'vhostuser' || type === 'vhostvdpa')
      ? [invalid(field, bus, `must be virtio for a disk of type ${type}`)]
      : []
  },
  example(disk({ device: 'cdrom' }), disk({ device: 'cdrom', target: { dev: 'sda', bus: 'sata' } })),
)

const isReadonly = ({ readonly }: Disk): boolean => readonly !== undefined

export const diskReadonly = eachDevice('disks')(
  'disk-readonly',
  'A hard disk on IDE or SATA cannot be read-only, and what is read-only keeps no copies of what is read.',
  (disk, at) => {
    if (!isReadonly(disk)) return []
    const { bus } = disk.target ?? {}
    const findings: Finding[] = []
    if ((disk.device ?? 'disk') === 'disk' && (bus === 'ide' || bus === 'sata')) {
      const message = `is not possible for a hard disk on bus ${bus}`
      findings.push(forbidden(`${at}.readonly`, undefined, message, 'put it on bus virtio or scsi'))
    }
    if (disk.driver?.copyOnRead === true) {
      findings.push(forbidden(`${at}.driver.copyOnRead`, true, 'is not possible for a read-only disk, since it writes'))
    }
    return findings
  },
  example(
    disk({ readonly: {}, target: { dev: 'sda', bus: 'sata' } }),
    disk({ readonly: {}, target: { dev: 'vda', bus: 'virtio' } }),
  ),
)

export const diskShareable = eachDevice('disks')(
  'disk-shareable',
  'A disk that several VMs write to has the format raw: others keep metadata that only one may change.',
  (disk, at) => {
    const { type } = disk.driver ?? {}
    if (disk.shareable === undefined || isReadonly(disk) || type === undefined || type === 'raw') return []
    return [invalid(`${at}.driver.type`, type, 'must be raw for a disk that is shareable and written to')]
  },
  example(disk({ shareable: {}, driver: { type: 'qcow2' } }), disk({ shareable: {}, driver: { type: 'raw' } })),
)

/** Formats that libvirt knows by name and QEMU does not serve, and what to do instead. */
const unservedFormats: { readonly [format: string]: string } = {
  dir: 'a directory is shown as a disk by type: dir',
  iso: 'did you mean "raw"?',
  cow: 'convert the image to qcow2',
  luks: 'format raw, and source.encryption: {format: luks}',
}

export const diskFormat = eachDevice('disks')(
  'disk-format',
  'The driver of a disk is qemu, and its format is one that QEMU serves.',
  ({ driver, type, readonly, device }, at) => {
    const { name, type: format, io, cache } = driver ?? {}
    const findings: Finding[] = []
    if (name !== undefined && name !== 'qemu') findings.push(unsupported(`${at}.driver.name`, name, 'must be qemu'))
    const instead = unservedFormats[format ?? '']
    if (instead !== undefined) {
      findings.push(unsupported(`${at}.driver.type`, format, 'is a format that QEMU does not serve', instead))
    } else if (type === 'dir' && format !== undefined && format !== 'fat') {
      findings.push(invalid(`${at}.driver.type`, format, 'must be fat: QEMU shows a directory as a FAT disk'))
    } else if (type === 'dir' && readonly === undefined && device !== 'floppy') {
      findings.push(required(`${at}.readonly`, 'must be given: a directory shown as a disk cannot be written to'))
    }
    if (format === 'fat' && type !== 'dir') findings.push(invalid(`${at}.driver.type`, format, 'is for type dir only'))
    if (io === 'native' && cache !== 'none' && cache !== 'directsync') {
      findings.push(invalid(`${at}.driver.io`, io, 'is possible with cache none or directsync only'))
    }
    return findings
  },
  example(disk({ driver: { type: 'iso' } }), disk({ driver: { type: 'raw' } })),
)

/** Options of the driver, and the buses on which they mean something. */
const driverBuses = {
  queues: ['virtio'],
  queueSize: ['virtio'],
  ioeventfd: ['virtio'],
  eventIdx: ['virtio'],
  iothread: ['virtio'],
  iothreads: ['virtio'],
  iommu: ['virtio'],
  ats: ['virtio'],
  packed: ['virtio'],
  pagePerVq: ['virtio'],
} as const

export const diskDriver = eachDevice('disks')(
  'disk-driver',
  'Queues, event notification, I/O threads and the options of virtio are for disks on bus virtio.',
  ({ driver, target, model }, at) => {
    const { bus } = target ?? {}
    if (bus === undefined || bus === 'virtio') {
      return driver?.iothread !== undefined && driver.iothreads !== undefined
        ? [forbidden(`${at}.driver.iothread`, driver.iothread, 'may not be given beside iothreads')]
        : []
    }
    const findings = Object.entries(driverBuses)
      .filter(([key]) => driver !== undefined && Object.hasOwn(driver, key))
      .map(([key]) =>
        forbidden(`${at}.driver.${key}`, undefined, `may be given for disks on bus virtio only, not on ${bus}`),
      )
    if (model !== undefined) {
      findings.push(forbidden(`${at}.model`, model, `may be given for disks on bus virtio only, not on ${bus}`))
    }
    return findings
  },
  example(
    disk({ target: { dev: 'sda', bus: 'sata' }, driver: { queues: 2 } }),
    disk({ target: { dev: 'vda', bus: 'virtio' }, driver: { queues: 2 } }),
  ),
)

/** Fields that only a disk on certain buses has, by their path. */
const fieldBuses: readonly (readonly [(disk: Disk) => unknown, string, readonly string[]])[] = [
  [({ vendor }) => vendor, 'vendor', ['scsi']],
  [({ product }) => product, 'product', ['scsi', 'sata', 'ide']],
  [({ wwn }) => wwn, 'wwn', ['ide', 'scsi', 'sata']],
  [({ target }) => target?.removable, 'target.removable', ['usb', 'scsi']],
  [({ target }) => target?.rotationRate, 'target.rotationRate', ['scsi', 'ide', 'sata']],
]

export const diskIdentity = eachDevice('disks')(
  'disk-identity',
  'A vendor, product, World Wide Name, rotation rate or removable mark is given on buses that have them, in printable letters.',
  (one, at) => {
    const { bus } = one.target ?? {}
    const findings = fieldBuses
      .filter(([read, , buses]) => bus !== undefined && read(one) !== undefined && !buses.includes(bus))
      .map(([read, path, buses]) =>
        forbidden(`${at}.${path}`, read(one), `may be given on bus ${buses.join(', ')} only, not on ${bus}`),
      )
    if (one.geometry && bus === 'usb')
      findings.push(forbidden(`${at}.geometry`, undefined, 'may not be given on bus usb'))
    if (one.serial !== undefined && !/^[\w\-\\ .+]*$/.test(one.serial)) {
      findings.push(invalid(`${at}.serial`, one.serial, 'may have letters, digits, spaces and _ - . + only'))
    }
    for (const key of ['vendor', 'product'] as const) {
      const value = one[key]
      if (value !== undefined && !/^[\x20-\x7e]*$/.test(value)) {
        findings.push(invalid(`${at}.${key}`, value, 'must be printable ASCII'))
      }
    }
    return findings
  },
  example(
    disk({ target: { dev: 'vda', bus: 'virtio' }, vendor: 'ACME' }),
    disk({ target: { dev: 'sda', bus: 'scsi' }, vendor: 'ACME' }),
  ),
)

export const diskLun = eachDevice('disks')(
  'disk-lun',
  'Raw SCSI commands and reservations are for device lun, whose source is a block device or an iSCSI unit.',
  ({ device, rawio, sgio, source, type, target }, at) => {
    if (device !== 'lun') {
      const message = 'may be given for device lun only'
      return [
        ...(rawio === undefined ? [] : [forbidden(`${at}.rawio`, rawio, message)]),
        ...(sgio === undefined ? [] : [forbidden(`${at}.sgio`, sgio, message)]),
        ...(source?.reservations === undefined ? [] : [forbidden(`${at}.source.reservations`, undefined, message)]),
      ]
    }
    const findings: Finding[] = []
    if (target?.bus !== undefined && target.bus !== 'scsi' && target.bus !== 'virtio') {
      findings.push(invalid(`${at}.target.bus`, target.bus, 'must be scsi for device lun'))
    }
    if (type === 'network' ? source?.protocol !== 'iscsi' : type !== 'block' && type !== 'volume') {
      findings.push(invalid(`${at}.type`, type, 'must be block, or network with protocol iscsi, for device lun'))
    }
    return findings
  },
  example(
    disk({ rawio: true, target: { dev: 'sda', bus: 'scsi' } }),
    disk({
      rawio: true,
      device: 'lun',
      type: 'block',
      source: { dev: '/dev/sdb' },
      target: { dev: 'sda', bus: 'scsi' },
    }),
  ),
)

export const diskTray = eachDevice('disks')(
  'disk-tray',
  'Only a CD-ROM or floppy drive has a tray, and only such a drive may start without its source.',
  ({ device, target, source, type }, at) => {
    const findings: Finding[] = []
    if (source?.startupPolicy !== undefined && type === 'network') {
      findings.push(forbidden(`${at}.source.startupPolicy`, source.startupPolicy, 'may not be given for type network'))
    }
    if (device === 'cdrom' || device === 'floppy') return findings
    if (target?.tray !== undefined)
      findings.push(forbidden(`${at}.target.tray`, target.tray, 'may be given for CD-ROM and floppy drives only'))
    if (source?.startupPolicy === 'requisite') {
      findings.push(
        invalid(`${at}.source.startupPolicy`, 'requisite', 'may be given for CD-ROM and floppy drives only'),
      )
    }
    return findings
  },
  example(
    disk({ target: { dev: 'vda', tray: 'open' } }),
    disk({ device: 'cdrom', target: { dev: 'sda', bus: 'sata', tray: 'open' } }),
  ),
)

/** Limits that add up what two others limit one by one. */
const totals = [
  ['totalBytesSec', 'readBytesSec', 'writeBytesSec'],
  ['totalIopsSec', 'readIopsSec', 'writeIopsSec'],
  ['totalBytesSecMax', 'readBytesSecMax', 'writeBytesSecMax'],
  ['totalIopsSecMax', 'readIopsSecMax', 'writeIopsSecMax'],
] as const

/** QEMU's own limit of a limit. */
const maxThrottle = 1_000_000_000_000_000

type Limits = { readonly [key in (typeof totals)[number][number]]?: number | string }

function* checkLimits(limits: Limits, field: string): Iterable<Finding> {
  for (const [total, ...parts] of totals) {
    if ((numberOf(limits[total]) ?? 0) !== 0) {
      const part = parts.find((key) => (numberOf(limits[key]) ?? 0) !== 0)
      if (part !== undefined)
        yield forbidden(`${field}.${part}`, limits[part], `may not be given beside ${total}, which limits both ways`)
    }
    for (const key of [total, ...parts]) {
      const value = numberOf(limits[key]) ?? 0
      if (value > maxThrottle) yield invalid(`${field}.${key}`, value, `must be at most ${maxThrottle}, QEMU's limit`)
    }
  }
}

export const diskLimits: Rule = {
  id: 'disk-limits',
  description:
    'A limit for reading and writing together stands alone; throttle groups exist and replace the limits of the disk itself.',
  *check({ domain }) {
    const groups = domain.throttlegroups?.throttlegroups ?? []
    for (const [index, group] of groups.entries()) {
      yield* checkLimits(group, `spec.domain.throttlegroups.throttlegroups[${index}]`)
    }
    const names = new Set(groups.map(({ groupName }) => groupName))
    for (const [index, { iotune, throttlefilters }] of list(domain, 'disks').entries()) {
      const at = `spec.domain.devices.disks[${index}]`
      const filters = throttlefilters?.throttlefilters ?? []
      if (iotune) yield* checkLimits(iotune, `${at}.iotune`)
      if (iotune && filters.length > 0)
        yield forbidden(`${at}.iotune`, undefined, 'may not be given beside throttlefilters')
      for (const [place, { group }] of filters.entries()) {
        if (names.has(group)) continue
        const field = `${at}.throttlefilters.throttlefilters[${place}].group`
        yield notFound(field, group, 'is no group of throttlegroups')
      }
    }
  },
  example: example(
    disk({ iotune: { totalBytesSec: 1000, readBytesSec: 500 } }),
    disk({ iotune: { writeBytesSec: 1000, readBytesSec: 500 } }),
  ),
}

export const diskQcow2 = eachDevice('disks')(
  'disk-qcow2',
  'A metadata cache, a data file and discarding without unreferencing are for images of format qcow2.',
  ({ driver, source }, at) => {
    if (driver?.type === 'qcow2' || driver?.type === undefined) return []
    const message = `may be given for format qcow2 only, not for ${driver.type}`
    return [
      ...(driver.metadataCache === undefined ? [] : [forbidden(`${at}.driver.metadataCache`, undefined, message)]),
      ...(driver.discardNoUnref === undefined ? [] : [forbidden(`${at}.driver.discardNoUnref`, undefined, message)]),
      ...(source?.dataStore === undefined ? [] : [forbidden(`${at}.source.dataStore`, undefined, message)]),
    ]
  },
  example(
    disk({ driver: { type: 'raw', discardNoUnref: true } }),
    disk({ driver: { type: 'qcow2', discardNoUnref: true } }),
  ),
)

export const diskRules: readonly Rule[] = [
  diskTarget,
  diskTargetUnique,
  diskBus,
  diskFormat,
  diskReadonly,
  diskShareable,
  diskDriver,
  diskIdentity,
  diskLun,
  diskTray,
  diskLimits,
  diskQcow2,
]
