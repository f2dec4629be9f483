import type { Domain } from '../../api/domain/domain.ts'
import { eachDevice, type DeviceOf } from './device.ts'
import { forbidden, forbidEach, invalid, required, unsupported } from './finding.ts'
import { example, type Finding, type Rule } from './rule.ts'

type Disk = DeviceOf<'disks'>

const disk = (more: Disk): Domain => ({
  devices: { disks: [{ type: 'file', source: { file: '/disk.img' }, target: { dev: 'vda' }, ...more }] },
})

/** Fields that only disks on certain buses have, by their path. */
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

/** In letters. */
const longest = { vendor: 8, product: 40, 'product on scsi': 16 } as const

const diskIdentity = eachDevice('disks', ...limited.map(([field]) => field.replace(/^.*\./, '')))(
  'disk-identity',
  'A vendor, product, World Wide Name, serial number, geometry or rotation rate is given on buses that have them, in printable letters.',
  function* (one, at) {
    const { device = 'disk', target, serial } = one
    const { bus } = target ?? {}
    for (const [field, buses] of limited) {
      if (bus === undefined || buses.includes(bus)) continue
      yield* forbidEach(one, at, [field], `may be given on bus ${buses.join(', ')} only, not on ${bus}`)
    }
    if (device !== 'disk') {
      yield* forbidEach(one, at, ['target.rotationRate', 'target.removable'], `may not be given for device ${device}`)
    }
    if (serial !== undefined && !/^[\w\-\\ .+]*$/.test(serial)) {
      yield invalid(`${at}.serial`, serial, 'may have letters, digits, spaces and _ - . + only')
    }
    for (const key of ['vendor', 'product'] as const) {
      const value = one[key] ?? ''
      const most = longest[key === 'product' && bus === 'scsi' ? 'product on scsi' : key]
      if (!/^[\x20-\x7e]*$/.test(value)) yield invalid(`${at}.${key}`, value, 'must be printable ASCII')
      if (value.length > most) yield invalid(`${at}.${key}`, value, `may have ${most} characters on bus ${bus}`)
    }
  },
  example(
    disk({ target: { dev: 'vda', bus: 'virtio' }, vendor: 'ACME' }),
    disk({ target: { dev: 'sda', bus: 'scsi' }, vendor: 'ACME' }),
  ),
)

/** What the device of the host says itself. */
const ofTheUnit = ['vendor', 'product', 'wwn', 'serial', 'source.slices', 'source.encryption', 'encryption']

const diskLun = eachDevice('disks')(
  'disk-lun',
  'Raw SCSI commands and reservations are for device lun: a block device or an iSCSI unit on bus scsi, as it is, in format raw.',
  function* (one, at) {
    const { device, source, type, target, driver, sgio } = one
    if (sgio === 'unfiltered') yield unsupported(`${at}.sgio`, sgio, 'is no longer possible', 'filtered')
    yield* reservations(source, `${at}.source.reservations`)
    if (device !== 'lun') {
      yield* forbidEach(one, at, ['rawio', 'sgio', 'source.reservations'], 'may be given for device lun only')
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
    yield* forbidEach(one, at, ofTheUnit, 'may not be given for device lun, which is the device of the host as it is')
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

/** Who keeps the reservations is libvirt's matter, or is named. */
function* reservations(source: Disk['source'], at: string): Iterable<Finding> {
  const given = source?.reservations
  if (!given || given.managed === true) return
  const { type, path, mode } = given.source ?? {}
  if (type !== 'unix') yield required(`${at}.source.type`, 'must be unix where reservations are not managed')
  if (path === undefined) yield required(`${at}.source.path`, 'must be given where reservations are not managed')
  if (mode !== 'client') yield required(`${at}.source.mode`, 'must be client: the other side keeps the reservations')
}

const diskTray = eachDevice('disks', 'tray', 'startupPolicy')(
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

export const diskIdentityRules: readonly Rule[] = [diskIdentity, diskLun, diskTray]
