import type { Domain } from '../../api/domain/domain.ts'
import { eachDevice, type DeviceOf } from './device.ts'
import { forbidden, forbidEach, invalid, required, unsupported } from './finding.ts'
import { example, type Finding, type Rule } from './rule.ts'

type Disk = DeviceOf<'disks'>

const disk = (more: Disk): Domain => ({
  devices: { disks: [{ type: 'file', source: { file: '/disk.img' }, target: { dev: 'vda' }, ...more }] },
})

/** The buses that support a field, by its path. */
const fieldBuses: { readonly [field: string]: readonly string[] } = {
  vendor: ['scsi'],
  product: ['scsi', 'sata', 'ide'],
  wwn: ['ide', 'scsi'],
  'target.removable': ['usb', 'scsi'],
  'target.rotationRate': ['scsi', 'ide', 'sata'],
  geometry: ['virtio', 'scsi', 'ide', 'sata', 'fdc'],
  'geometry.trans': ['ide'],
  serial: ['virtio', 'scsi', 'ide', 'sata', 'usb', 'fdc'],
  'transient.shareBacking': ['virtio', 'scsi', 'usb'],
  iotune: ['virtio', 'scsi', 'ide', 'sata', 'usb', 'fdc'],
}

const limited = Object.entries(fieldBuses)

/** In characters; the schema holds the limits that do not depend on the bus. */
const longestScsiProduct = 16

const diskIdentity = eachDevice('disks', ...limited.map(([field]) => field.replace(/^.*\./, '')))(
  'disk-identity',
  'The bus of a disk must support its vendor, product, World Wide Name, serial number, geometry and rotation rate.',
  function* (one, at) {
    const { device = 'disk', target, product } = one
    const { bus } = target ?? {}
    for (const [field, buses] of limited) {
      if (bus === undefined || buses.includes(bus)) continue
      yield* forbidEach(one, at, [field], `can only be set on bus ${buses.join(', ')}, not on ${bus}`)
    }
    if (device !== 'disk') {
      yield* forbidEach(one, at, ['target.rotationRate', 'target.removable'], `must not be set for device ${device}`)
    }
    if (bus === 'scsi' && (product ?? '').length > longestScsiProduct) {
      yield invalid(`${at}.product`, product, `must be at most ${longestScsiProduct} characters on bus scsi`)
    }
  },
  example(
    disk({ target: { dev: 'vda', bus: 'virtio' }, vendor: 'ACME' }),
    disk({ target: { dev: 'sda', bus: 'scsi' }, vendor: 'ACME' }),
  ),
)

/** The device of the host provides these itself. */
const ownFields = ['vendor', 'product', 'wwn', 'serial', 'source.slices', 'source.encryption', 'encryption']

const diskLun = eachDevice('disks')(
  'disk-lun',
  'Raw SCSI commands and reservations require device lun: a block device or an iSCSI unit on bus scsi, in format raw.',
  function* (one, at) {
    const { device, source, type, target, driver, sgio } = one
    if (sgio === 'unfiltered') yield unsupported(`${at}.sgio`, sgio, 'is no longer supported', 'filtered')
    yield* reservations(source, `${at}.source.reservations`)
    if (device !== 'lun') {
      yield* forbidEach(one, at, ['rawio', 'sgio', 'source.reservations'], 'can only be set for device lun')
      return
    }
    if (target?.bus !== undefined && target.bus !== 'scsi') {
      yield invalid(`${at}.target.bus`, target.bus, 'must be scsi for device lun')
    }
    if (type === 'network' ? source?.protocol !== 'iscsi' : type !== 'block' && type !== 'volume') {
      yield invalid(`${at}.type`, type, 'must be block, or network with protocol iscsi, for device lun')
    }
    if (driver?.type !== undefined && driver.type !== 'raw') {
      yield invalid(`${at}.driver.type`, driver.type, 'must be raw for device lun')
    }
    yield* forbidEach(one, at, ownFields, 'must not be set for device lun, which passes the device of the host through')
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

/** libvirt manages reservations, or the socket of another manager is named. */
function* reservations(source: Disk['source'], at: string): Iterable<Finding> {
  const given = source?.reservations
  if (!given || given.managed === true) return
  const { type, path, mode } = given.source ?? {}
  if (type !== 'unix') yield required(`${at}.source.type`, 'must be unix when reservations are not managed')
  if (path === undefined) yield required(`${at}.source.path`, 'must be set when reservations are not managed')
  if (mode !== 'client') yield required(`${at}.source.mode`, 'must be client when reservations are not managed')
}

const diskTray = eachDevice('disks', 'tray', 'startupPolicy')(
  'disk-tray',
  'Only CD-ROM and floppy drives have a tray and `startupPolicy: requisite`; a network disk has no startup policy.',
  ({ device, target, source, type }, at) => {
    const findings: Finding[] = []
    if (source?.startupPolicy !== undefined && type === 'network') {
      findings.push(forbidden(`${at}.source.startupPolicy`, source.startupPolicy, 'must not be set for type network'))
    }
    if (device === 'cdrom' || device === 'floppy') return findings
    if (target?.tray !== undefined)
      findings.push(forbidden(`${at}.target.tray`, target.tray, 'can only be set for CD-ROM and floppy drives'))
    if (source?.startupPolicy === 'requisite') {
      findings.push(invalid(`${at}.source.startupPolicy`, 'requisite', 'can only be set for CD-ROM and floppy drives'))
    }
    return findings
  },
  example(
    disk({ target: { dev: 'vda', tray: 'open' } }),
    disk({ device: 'cdrom', target: { dev: 'sda', bus: 'sata', tray: 'open' } }),
  ),
)

export const diskIdentityRules: readonly Rule[] = [diskIdentity, diskLun, diskTray]
