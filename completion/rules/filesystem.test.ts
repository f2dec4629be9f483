import type { Domain } from '../../api/domain/domain.ts'
import { testRule } from '../../test/rule-table.ts'
import type { DeviceOf } from './device.ts'

type Filesystem = DeviceOf<'filesystems'>

const shared: Domain = { memoryBacking: { source: { type: 'memfd' }, access: { mode: 'shared' } } }

const filesystem = (more: Filesystem): Domain => ({
  ...shared,
  devices: { filesystems: [{ type: 'mount', source: { dir: '/d' }, target: { dir: 't' }, ...more }] },
})

const virtiofs = (more: Filesystem): Domain => filesystem({ driver: { type: 'virtiofs' }, ...more })

testRule('filesystem', [
  {
    refused: { devices: { filesystems: [{ source: { dir: '/d' } }] } },
    causes: [
      'spec.domain.devices.filesystems[0].target.dir: Required value: must be set: the tag that the guest mounts',
    ],
    accepted: { devices: { filesystems: [{ source: { dir: '/d' }, target: { dir: 't' } }] } },
  },
  {
    refused: { devices: { filesystems: [{ target: { dir: 't' } }] } },
    causes: ['spec.domain.devices.filesystems[0].source.dir: Required value: must be set: the directory to share'],
    accepted: { ...shared, devices: { filesystems: [{ driver: { type: 'virtiofs' }, source: { socket: '/s' } }] } },
  },
  {
    refused: filesystem({ target: { dir: '' } }),
    causes: [
      'spec.domain.devices.filesystems[0].target.dir: Required value: must be set: the tag that the guest mounts',
    ],
    accepted: filesystem({ target: { dir: 'tag' } }),
  },
  {
    refused: filesystem({ source: {} }),
    causes: ['spec.domain.devices.filesystems[0].source.dir: Required value: must be set: the directory to share'],
    accepted: filesystem({ source: { dir: '/d' } }),
  },
  {
    refused: filesystem({ driver: { type: 'loop' } }),
    causes: ['spec.domain.devices.filesystems[0].driver.type: Unsupported value: "loop": is not supported by QEMU'],
    accepted: filesystem({ driver: { type: 'path' } }),
  },
  {
    refused: filesystem({ driver: { type: 'nbd' } }),
    causes: ['spec.domain.devices.filesystems[0].driver.type: Unsupported value: "nbd": is not supported by QEMU'],
    accepted: filesystem({}),
  },
  {
    refused: virtiofs({ accessmode: 'mapped' }),
    causes: [
      'spec.domain.devices.filesystems[0].accessmode: Invalid value: "mapped": must be passthrough for virtiofs',
    ],
    accepted: virtiofs({ accessmode: 'passthrough' }),
  },
  {
    refused: virtiofs({
      multidevs: 'remap',
      model: 'virtio',
      driver: { type: 'virtiofs', wrpolicy: 'immediate', format: 'raw' },
    }),
    causes: [
      'spec.domain.devices.filesystems[0].driver.wrpolicy: Forbidden: must not be set for virtiofs',
      'spec.domain.devices.filesystems[0].driver.format: Forbidden: must not be set for virtiofs',
      'spec.domain.devices.filesystems[0].multidevs: Forbidden: must not be set for virtiofs',
      'spec.domain.devices.filesystems[0].model: Forbidden: must not be set for virtiofs',
    ],
    accepted: filesystem({ multidevs: 'remap', model: 'virtio', driver: { type: 'path', wrpolicy: 'immediate' } }),
  },
  {
    refused: filesystem({ driver: { type: 'path', queue: 1024 } }),
    causes: ['spec.domain.devices.filesystems[0].driver.queue: Forbidden: can only be set for virtiofs'],
    accepted: virtiofs({ driver: { type: 'virtiofs', queue: 1024 } }),
  },
  {
    refused: filesystem({ boot: { order: 1 } }),
    causes: ['spec.domain.devices.filesystems[0].boot: Forbidden: can only be set for virtiofs'],
    accepted: virtiofs({ boot: { order: 1 } }),
  },
  {
    refused: filesystem({ binary: { path: '/usr/libexec/virtiofsd' } }),
    causes: ['spec.domain.devices.filesystems[0].binary: Forbidden: can only be set for virtiofs'],
    accepted: virtiofs({ binary: { path: '/usr/libexec/virtiofsd' } }),
  },
  {
    refused: virtiofs({
      idmap: { uids: [{ start: 0, target: 0, count: 1 }] },
      binary: { sandbox: { mode: 'chroot' }, lock: { posix: true }, cache: { mode: 'none' } },
    }),
    causes: [
      'spec.domain.devices.filesystems[0].idmap: Forbidden: is not supported: the launcher pod confines virtiofsd',
      'spec.domain.devices.filesystems[0].binary.sandbox: Forbidden: is not supported: the launcher pod confines virtiofsd',
      'spec.domain.devices.filesystems[0].binary.lock: Forbidden: is not supported: the launcher pod confines virtiofsd',
    ],
    accepted: virtiofs({ binary: { cache: { mode: 'none' }, xattr: true, openfiles: { max: 1000 } } }),
  },
  {
    refused: virtiofs({ binary: { openfiles: { max: 999 } } }),
    causes: [
      'spec.domain.devices.filesystems[0].binary.openfiles.max: Invalid value: 999: must be at least 1000, or 0 for the default',
    ],
    accepted: virtiofs({ binary: { openfiles: { max: 0 } } }),
  },
  {
    volumes: [{ name: 'data', persistentVolumeClaim: { claimName: 'data' } }],
    refused: filesystem({ type: 'volume', source: {} }),
    causes: ['spec.domain.devices.filesystems[0].source.volume: Required value: must be set: a volume of the VM'],
    accepted: filesystem({ type: 'volume', source: { volume: 'data' } }),
  },
  {
    volumes: [{ name: 'data', persistentVolumeClaim: { claimName: 'data' } }],
    refused: filesystem({
      type: 'volume',
      driver: { type: 'path' },
      source: { volume: 'data', dir: '/etc', file: '/f', socket: '/s' },
    }),
    causes: [
      'spec.domain.devices.filesystems[0].source.dir: Forbidden: must not be set for type volume',
      'spec.domain.devices.filesystems[0].source.file: Forbidden: must not be set for type volume',
      'spec.domain.devices.filesystems[0].source.socket: Forbidden: must not be set for type volume',
      'spec.domain.devices.filesystems[0].driver.type: Unsupported value: "path": must be virtiofs, which shares a volume',
    ],
    accepted: filesystem({ type: 'volume', source: { volume: 'data' } }),
  },
  {
    refused: filesystem({ source: { dir: '/d', volume: 'data' } }),
    causes: ['spec.domain.devices.filesystems[0].source.volume: Forbidden: can only be set for type volume'],
    accepted: filesystem({ source: { dir: '/d' } }),
  },
  {
    refused: filesystem({ accessmode: 'squash', fmode: '0600', dmode: '0700' }),
    causes: [
      'spec.domain.devices.filesystems[0].fmode: Forbidden: can only be set with accessmode mapped',
      'spec.domain.devices.filesystems[0].dmode: Forbidden: can only be set with accessmode mapped',
    ],
    accepted: filesystem({ accessmode: 'mapped', fmode: '0600', dmode: '0700' }),
  },
])
