import type { Domain } from '../../api/domain/domain.ts'
import { eachDevice, list, type DeviceOf } from './device.ts'
import { duplicate, forbidden, invalid, required } from './finding.ts'
import { example, type Rule } from './rule.ts'

type Disk = DeviceOf<'disks'>

const disk = (more: Disk): Domain => ({
  devices: { disks: [{ type: 'file', source: { file: '/disk.img' }, target: { dev: 'vda' }, ...more }] },
})

/** The last two prefixes are of other hypervisors; libvirt still accepts them. */
const targetName = /^(?:fd|hd|sd|vd|xvd|ubd)[a-z]{1,6}(\d*)$/

const diskTarget = eachDevice('disks')(
  'disk-target',
  'A disk must have a target, a prefix and a letter such as `vda`; a partition cannot be a target.',
  ({ target, device }, at) => {
    const { dev } = target ?? {}
    if (dev === undefined) return [required(`${at}.target.dev`, 'must be set: it identifies the disk', 'e.g. vda, sdb')]
    const match = targetName.exec(dev)
    if (!match) return [invalid(`${at}.target.dev`, dev, 'must be fd, hd, sd or vd and a letter, e.g. vda')]
    const whole = dev.replace(/\d+$/, '')
    if (Number(match[1]) !== 0) {
      return [invalid(`${at}.target.dev`, dev, 'must not be a partition', `did you mean "${whole}"?`)]
    }
    if (device === 'floppy' && !dev.startsWith('fd')) {
      return [invalid(`${at}.target.dev`, dev, 'must begin with fd for device floppy')]
    }
    return device !== 'floppy' && dev.startsWith('fd')
      ? [invalid(`${at}.target.dev`, dev, 'must not begin with fd, which is for floppy drives')]
      : []
  },
  example(disk({ target: { dev: 'vdb1' } }), disk({ target: { dev: 'vdb' } })),
)

const diskTargetUnique: Rule = {
  id: 'disk-target-unique',
  description: 'The target of a disk must be unique, whatever its bus.',
  about: ['disks'],
  *check({ domain }) {
    const seen = new Map<string, number>()
    for (const [index, { target }] of list(domain, 'disks').entries()) {
      if (target?.dev === undefined) continue
      const other = seen.get(target.dev)
      if (other === undefined) seen.set(target.dev, index)
      else {
        const message = `is already the target of devices.disks[${other}]`
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
  'Floppy drives, and only they, must be on bus fdc; CD-ROM drives cannot be on bus virtio or sd; vhost disks must be on bus virtio.',
  ({ target, device, type }, at) => {
    const { bus } = target ?? {}
    const field = `${at}.target.bus`
    if (bus === undefined) return []
    if (device === 'floppy') return bus === 'fdc' ? [] : [invalid(field, bus, 'must be fdc for a floppy drive')]
    if (bus === 'fdc')
      return [invalid(field, bus, 'is only supported for floppy drives', 'device: floppy, or another bus')]
    if (bus === 'virtio' && device === 'cdrom') {
      return [
        invalid(
          field,
          bus,
          'is not supported for CD-ROM drives: virtio disks have no removable media',
          'did you mean "sata"?',
        ),
      ]
    }
    if (bus === 'sd' && device === 'cdrom')
      return [invalid(field, bus, 'is not supported for CD-ROM drives', 'did you mean "sata"?')]
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
    const message = `is not supported for a hard disk on bus ${bus}`
    return [forbidden(`${at}.readonly`, undefined, message, 'put it on bus virtio or scsi')]
  },
  example(
    disk({ readonly: {}, target: { dev: 'sda', bus: 'sata' } }),
    disk({ readonly: {}, target: { dev: 'vda', bus: 'virtio' } }),
  ),
)

const diskShareable = eachDevice('disks', 'shareable')(
  'disk-shareable',
  'A shareable disk that can be written to must be of format raw: other formats have metadata that only one VM can change.',
  (disk, at) => {
    const { type } = disk.driver ?? {}
    if (disk.shareable === undefined || isReadonly(disk) || type === undefined || type === 'raw') return []
    return [invalid(`${at}.driver.type`, type, 'must be raw for a shareable disk that can be written to')]
  },
  example(disk({ shareable: {}, driver: { type: 'qcow2' } }), disk({ shareable: {}, driver: { type: 'raw' } })),
)

export const diskRules: readonly Rule[] = [diskTarget, diskTargetUnique, diskBus, diskReadonly, diskShareable]
