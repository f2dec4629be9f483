import type { Domain } from '../../api/domain/domain.ts'
import { eachDevice, list, type DeviceOf } from './device.ts'
import { duplicate, forbidden, invalid, required } from './finding.ts'
import { example, type Rule } from './rule.ts'

type Disk = DeviceOf<'disks'>

const disk = (more: Disk): Domain => ({
  devices: { disks: [{ type: 'file', source: { file: '/disk.img' }, target: { dev: 'vda' }, ...more }] },
})

/** What begins the name of a target; the last two are of hypervisors that are gone, and libvirt still reads them. */
const targetName = /^(?:fd|hd|sd|vd|xvd|ubd)[a-z]{1,6}(\d*)$/

const diskTarget = eachDevice('disks')(
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

const diskTargetUnique: Rule = {
  id: 'disk-target-unique',
  description: 'No two disks have the same target, whatever their bus.',
  about: ['disks'],
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

const diskBus = eachDevice('disks')(
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
    if (bus === 'sd' && device === 'cdrom') return [invalid(field, bus, 'cannot have a CD-ROM drive', 'sata')]
    return bus !== 'virtio' && (type === 'vhostuser' || type === 'vhostvdpa')
      ? [invalid(field, bus, `must be virtio for a disk of type ${type}`)]
      : []
  },
  example(disk({ device: 'cdrom' }), disk({ device: 'cdrom', target: { dev: 'sda', bus: 'sata' } })),
)

const isReadonly = ({ readonly }: Disk): boolean => readonly !== undefined

const diskReadonly = eachDevice('disks', 'readonly')(
  'disk-readonly',
  'A hard disk on IDE or SATA cannot be read-only.',
  (disk, at) => {
    const { bus } = disk.target ?? {}
    if (!isReadonly(disk) || (disk.device ?? 'disk') !== 'disk' || (bus !== 'ide' && bus !== 'sata')) return []
    const message = `is not possible for a hard disk on bus ${bus}`
    return [forbidden(`${at}.readonly`, undefined, message, 'put it on bus virtio or scsi')]
  },
  example(
    disk({ readonly: {}, target: { dev: 'sda', bus: 'sata' } }),
    disk({ readonly: {}, target: { dev: 'vda', bus: 'virtio' } }),
  ),
)

const diskShareable = eachDevice('disks', 'shareable')(
  'disk-shareable',
  'A disk that several VMs write to has the format raw: others keep metadata that only one may change.',
  (disk, at) => {
    const { type } = disk.driver ?? {}
    if (disk.shareable === undefined || isReadonly(disk) || type === undefined || type === 'raw') return []
    return [invalid(`${at}.driver.type`, type, 'must be raw for a disk that is shareable and written to')]
  },
  example(disk({ shareable: {}, driver: { type: 'qcow2' } }), disk({ shareable: {}, driver: { type: 'raw' } })),
)

export const diskRules: readonly Rule[] = [diskTarget, diskTargetUnique, diskBus, diskReadonly, diskShareable]
