import type { Domain } from '../../api/domain/domain.ts'
import { testRule } from '../../test/rule-table.ts'
import type { DeviceOf } from './device.ts'

type Disk = DeviceOf<'disks'>
type Target = NonNullable<Disk['target']>

const disk = (target: Target, more: Disk = {}): Domain => ({
  devices: { disks: [{ type: 'file', source: { file: '/disk.img' }, target, ...more }] },
})

testRule('disk-target', [
  {
    refused: disk({}),
    causes: [
      'spec.domain.devices.disks[0].target.dev: Required value: must be set: it identifies the disk; e.g. vda, sdb',
    ],
    accepted: disk({ dev: 'vda' }),
  },
  {
    refused: disk({ dev: 'vd1' }),
    causes: [
      'spec.domain.devices.disks[0].target.dev: Invalid value: "vd1": must be fd, hd, sd or vd and a letter, e.g. vda',
    ],
    accepted: disk({ dev: 'sda' }),
  },
  {
    refused: disk({ dev: 'vdb1' }),
    causes: [
      'spec.domain.devices.disks[0].target.dev: Invalid value: "vdb1": must not be a partition; did you mean "vdb"?',
    ],
    accepted: disk({ dev: 'vdb' }),
  },
  {
    refused: disk({ dev: 'vdb12' }),
    causes: [
      'spec.domain.devices.disks[0].target.dev: Invalid value: "vdb12": must not be a partition; did you mean "vdb"?',
    ],
    accepted: disk({ dev: 'vdb0' }),
  },
  {
    refused: disk({ dev: 'sda' }, { device: 'floppy' }),
    causes: ['spec.domain.devices.disks[0].target.dev: Invalid value: "sda": must begin with fd for device floppy'],
    accepted: disk({ dev: 'fda' }, { device: 'floppy' }),
  },
  {
    refused: disk({ dev: 'fda', bus: 'virtio' }),
    causes: [
      'spec.domain.devices.disks[0].target.dev: Invalid value: "fda": must not begin with fd, which is for floppy drives',
    ],
    accepted: disk({ dev: 'vda', bus: 'virtio' }),
  },
])

const targets = (...devs: string[]): Domain => ({
  devices: { disks: devs.map((dev) => ({ device: 'cdrom', target: { dev } })) },
})

testRule('disk-target-unique', [
  {
    refused: targets('sda', 'sda', 'sda'),
    causes: [
      'spec.domain.devices.disks[1].target.dev: Duplicate value: "sda": is already the target of devices.disks[0]',
      'spec.domain.devices.disks[2].target.dev: Duplicate value: "sda": is already the target of devices.disks[0]',
    ],
    accepted: targets('sda', 'sdb', 'sdc'),
  },
  {
    refused: {
      devices: {
        disks: [
          { device: 'cdrom', target: { dev: 'sda', bus: 'sata' } },
          { device: 'cdrom', target: { dev: 'sda', bus: 'scsi' } },
        ],
      },
    },
    causes: [
      'spec.domain.devices.disks[1].target.dev: Duplicate value: "sda": is already the target of devices.disks[0]',
    ],
    accepted: {
      devices: {
        disks: [
          { device: 'cdrom', target: { dev: 'sda', bus: 'sata' } },
          { device: 'cdrom', target: { dev: 'sdb', bus: 'scsi' } },
        ],
      },
    },
  },
])

const shared: Domain = { memoryBacking: { source: { type: 'memfd' }, access: { mode: 'shared' } } }

const vhostuser = (target: Target): Domain => ({
  ...shared,
  ...disk(target, { type: 'vhostuser', source: { type: 'unix', path: '/s' }, driver: { type: 'raw' } }),
})

const vdpa = (target: Target): Domain => ({
  ...shared,
  ...disk(target, { type: 'vhostvdpa', source: { dev: '/dev/vhost-vdpa-0' }, driver: { type: 'raw', cache: 'none' } }),
})

testRule('disk-bus', [
  {
    refused: disk({ dev: 'fda', bus: 'sata' }, { device: 'floppy' }),
    causes: ['spec.domain.devices.disks[0].target.bus: Invalid value: "sata": must be fdc for a floppy drive'],
    accepted: disk({ dev: 'fda', bus: 'fdc' }, { device: 'floppy' }),
  },
  {
    refused: disk({ dev: 'vda', bus: 'fdc' }),
    causes: [
      'spec.domain.devices.disks[0].target.bus: Invalid value: "fdc": is only supported for floppy drives; device: floppy, or another bus',
    ],
    accepted: disk({ dev: 'vda', bus: 'virtio' }),
  },
  {
    refused: disk({ dev: 'vda', bus: 'virtio' }, { device: 'cdrom' }),
    causes: [
      'spec.domain.devices.disks[0].target.bus: Invalid value: "virtio": is not supported for CD-ROM drives: virtio disks have no removable media; did you mean "sata"?',
    ],
    accepted: disk({ dev: 'sda', bus: 'sata' }, { device: 'cdrom' }),
  },
  {
    refused: disk({ dev: 'sda', bus: 'sd' }, { device: 'cdrom' }),
    causes: [
      'spec.domain.devices.disks[0].target.bus: Invalid value: "sd": is not supported for CD-ROM drives; did you mean "sata"?',
    ],
    accepted: disk({ dev: 'sda', bus: 'usb' }, { device: 'cdrom' }),
  },
  {
    refused: vhostuser({ dev: 'sda', bus: 'sata' }),
    causes: [
      'spec.domain.devices.disks[0].target.bus: Invalid value: "sata": must be virtio for a disk of type vhostuser',
    ],
    accepted: vhostuser({ dev: 'vda', bus: 'virtio' }),
  },
  {
    refused: vdpa({ dev: 'sda', bus: 'scsi' }),
    causes: [
      'spec.domain.devices.disks[0].target.bus: Invalid value: "scsi": must be virtio for a disk of type vhostvdpa',
    ],
    accepted: vdpa({ dev: 'vda', bus: 'virtio' }),
  },
])

testRule('disk-readonly', [
  {
    refused: disk({ dev: 'sda', bus: 'sata' }, { readonly: {} }),
    causes: [
      'spec.domain.devices.disks[0].readonly: Forbidden: is not supported for a hard disk on bus sata; put it on bus virtio or scsi',
    ],
    accepted: disk({ dev: 'vda', bus: 'virtio' }, { readonly: {} }),
  },
  {
    refused: disk({ dev: 'hda', bus: 'ide' }, { readonly: {} }),
    causes: [
      'spec.domain.devices.disks[0].readonly: Forbidden: is not supported for a hard disk on bus ide; put it on bus virtio or scsi',
    ],
    accepted: {
      devices: {
        disks: [
          { device: 'cdrom', target: { dev: 'hda', bus: 'ide' }, readonly: {} },
          { source: { file: '/b' }, target: { dev: 'hdb', bus: 'ide' } },
        ],
      },
    },
  },
])

testRule('disk-shareable', [
  {
    refused: disk({ dev: 'vda' }, { shareable: {}, driver: { type: 'qcow2' } }),
    causes: [
      'spec.domain.devices.disks[0].driver.type: Invalid value: "qcow2": must be raw for a shareable disk that can be written to',
    ],
    accepted: disk({ dev: 'vda' }, { shareable: {}, driver: { type: 'raw' } }),
  },
  {
    refused: disk({ dev: 'vda' }, { shareable: {}, driver: { type: 'qcow2' } }),
    causes: [
      'spec.domain.devices.disks[0].driver.type: Invalid value: "qcow2": must be raw for a shareable disk that can be written to',
    ],
    accepted: {
      devices: {
        disks: [
          { source: { file: '/a' }, target: { dev: 'vda' }, shareable: {}, readonly: {}, driver: { type: 'qcow2' } },
          { source: { file: '/b' }, target: { dev: 'vdb' }, driver: { type: 'qcow2' } },
        ],
      },
    },
  },
])
