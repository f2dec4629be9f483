import type { Domain } from '../../api/domain/domain.ts'
import { testRule, testSilent } from '../../test/rule-table.ts'
import type { DeviceOf } from './device.ts'

type Disk = DeviceOf<'disks'>
type Source = NonNullable<Disk['source']>

const disk = (more: Disk): Domain => ({ devices: { disks: [{ target: { dev: 'vda' }, ...more }] } })

const cdrom = (bus: 'sata' | 'usb', more: Disk = {}): Domain =>
  disk({ type: 'file', device: 'cdrom', target: { dev: 'sda', bus }, ...more })

testRule('disk-source', [
  {
    refused: disk({ type: 'file' }),
    causes: ['spec.domain.devices.disks[0].source.file: Required value: must be set for type file'],
    accepted: disk({ type: 'file', source: { file: '/d' } }),
  },
  {
    refused: disk({}),
    causes: ['spec.domain.devices.disks[0].source.file: Required value: must be set for type file'],
    accepted: disk({ source: { file: '/d' } }),
  },
  {
    refused: disk({ type: 'file', device: 'floppy', target: { dev: 'fda', bus: 'usb' } }),
    causes: [
      'spec.domain.devices.disks[0].source.file: Required value: must be set: a drive on bus usb cannot be empty',
    ],
    accepted: disk({ type: 'file', source: { fdgroup: 'fds' } }),
  },
  {
    refused: disk({ type: 'block' }),
    causes: ['spec.domain.devices.disks[0].source.dev: Required value: must be set for type block'],
    accepted: disk({ type: 'block', source: { dev: '/dev/sda' } }),
  },
  {
    refused: disk({ type: 'volume' }),
    causes: ['spec.domain.devices.disks[0].source.volume: Required value: must be set for type volume'],
    accepted: disk({ type: 'volume', source: { volume: 'v', pool: 'p' } }),
  },
  {
    refused: disk({ type: 'network' }),
    causes: ['spec.domain.devices.disks[0].source.protocol: Required value: must be set for type network'],
    accepted: disk({ type: 'network', source: { protocol: 'nbd', host: { name: 'h' } } }),
  },
  {
    refused: disk({ type: 'dir', driver: { type: 'fat' }, readonly: {} }),
    causes: ['spec.domain.devices.disks[0].source.dir: Required value: must be set for type dir'],
    accepted: disk({ type: 'dir', driver: { type: 'fat' }, readonly: {}, source: { dir: '/d' } }),
  },
  {
    refused: cdrom('usb'),
    causes: [
      'spec.domain.devices.disks[0].source.file: Required value: must be set: a drive on bus usb cannot be empty',
    ],
    accepted: cdrom('sata'),
  },
  {
    refused: disk({ type: 'file' }),
    causes: ['spec.domain.devices.disks[0].source.file: Required value: must be set for type file'],
    accepted: disk({ type: 'file', device: 'floppy', target: { dev: 'fda' } }),
  },
])

testRule('disk-source-field', [
  {
    refused: cdrom('sata', { source: { dev: '/dev/sr0' } }),
    causes: [
      'spec.domain.devices.disks[0].source.dev: Forbidden: can only be set for type block, vhostvdpa, not for file',
    ],
    accepted: cdrom('sata', { type: 'block', source: { dev: '/dev/sr0' } }),
  },
  {
    refused: cdrom('sata', { type: 'block', source: { file: '/d', dir: '/d', volume: 'v', protocol: 'nbd' } }),
    causes: [
      'spec.domain.devices.disks[0].source.file: Forbidden: can only be set for type file, not for block',
      'spec.domain.devices.disks[0].source.dir: Forbidden: can only be set for type dir, not for block',
      'spec.domain.devices.disks[0].source.volume: Forbidden: can only be set for type volume, not for block; set type: volume',
      'spec.domain.devices.disks[0].source.protocol: Forbidden: can only be set for type network, not for block',
    ],
    accepted: cdrom('sata', { source: { file: '/d' } }),
  },
  {
    refused: disk({ source: { volume: 'root' } }),
    causes: [
      'spec.domain.devices.disks[0].source.volume: Forbidden: can only be set for type volume, not for file; set type: volume',
    ],
    accepted: disk({ type: 'network', source: { protocol: 'nbd', name: 'root', host: { name: 'h' } } }),
  },
])

const iscsi = (auth: Disk['auth'], more: Disk = {}, source: Source = {}): Domain =>
  disk({
    type: 'network',
    source: {
      protocol: 'iscsi',
      name: 'iqn.2017-01.example:disk/1',
      host: { name: 'h' },
      ...(auth === undefined ? {} : { auth }),
      ...source,
    },
    ...more,
  })

const secret = { type: 'iscsi' as const, usage: 'mine' }

const auth = { username: 'me', secret }

testRule('disk-auth', [
  {
    refused: iscsi({ username: 'me', secret: { type: 'ceph', usage: 'mine' } }),
    causes: [
      'spec.domain.devices.disks[0].source.auth.secret.type: Invalid value: "ceph": must be iscsi for protocol iscsi; did you mean "iscsi"?',
    ],
    accepted: iscsi(auth),
  },
  {
    refused: iscsi(auth, {}, { protocol: 'rbd', name: 'pool/image' }),
    causes: [
      'spec.domain.devices.disks[0].source.auth.secret.type: Invalid value: "iscsi": must be ceph for protocol rbd; did you mean "ceph"?',
    ],
    accepted: iscsi(
      { username: 'me', secret: { type: 'ceph', usage: 'mine' } },
      {},
      { protocol: 'rbd', name: 'pool/image' },
    ),
  },
  {
    refused: iscsi({ username: 'me', secret: { type: 'iscsi' } }),
    causes: [
      'spec.domain.devices.disks[0].source.auth.secret.usage: Required value: must be set, or uuid, but not both: it identifies the secret',
    ],
    accepted: iscsi({ username: 'me', secret: { type: 'iscsi', uuid: '53764d0e-85a0-42b4-af5c-2046b460b1dc' } }),
  },
  {
    refused: iscsi({ username: 'me', secret: { ...secret, uuid: '53764d0e-85a0-42b4-af5c-2046b460b1dc' } }),
    causes: [
      'spec.domain.devices.disks[0].source.auth.secret.usage: Required value: must be set, or uuid, but not both: it identifies the secret',
    ],
    accepted: iscsi(auth),
  },
  {
    refused: iscsi(auth, { auth }),
    causes: ['spec.domain.devices.disks[0].auth: Forbidden: must not be set together with source.auth'],
    accepted: iscsi(undefined, { auth }),
  },
  {
    refused: iscsi(auth, {}, { protocol: 'nbd' }),
    causes: ['spec.domain.devices.disks[0].source.auth: Forbidden: must not be set for protocol nbd'],
    accepted: iscsi(undefined, {}, { protocol: 'nbd' }),
  },
  {
    refused: iscsi(auth, {}, { protocol: 'gluster', name: 'v/i' }),
    causes: ['spec.domain.devices.disks[0].source.auth: Forbidden: must not be set for protocol gluster'],
    accepted: iscsi(undefined, {}, { protocol: 'gluster', name: 'v/i' }),
  },
  {
    refused: disk({ type: 'file', source: { file: '/d', auth } }),
    causes: ['spec.domain.devices.disks[0].source.auth: Forbidden: can only be set for type network, not for file'],
    accepted: disk({ type: 'file', source: { file: '/d' } }),
  },
])

type Encryption = NonNullable<Disk['encryption']>

const passphrase = { type: 'passphrase' as const, usage: 'disk' }

const luks: Encryption = { format: 'luks', secret: passphrase }

const encrypted = (encryption: Encryption, more: Disk = {}): Domain =>
  disk({ driver: { type: 'qcow2' }, source: { file: '/d', encryption }, ...more })

const rbd = (encryption: Encryption): Domain =>
  disk({ driver: { type: 'raw' }, type: 'network', source: { protocol: 'rbd', name: 'pool/image', encryption } })

testRule('disk-encryption', [
  {
    refused: encrypted(luks, { driver: { type: 'vmdk' } }),
    causes: [
      'spec.domain.devices.disks[0].source.encryption.format: Invalid value: "luks": is only supported for images of format raw and qcow2, not vmdk',
    ],
    accepted: encrypted(luks),
  },
  {
    refused: encrypted(luks, { driver: { type: 'vdi' } }),
    causes: [
      'spec.domain.devices.disks[0].source.encryption.format: Invalid value: "luks": is only supported for images of format raw and qcow2, not vdi',
    ],
    accepted: encrypted(luks, { driver: { type: 'raw' } }),
  },
  {
    refused: encrypted(luks, { encryption: luks }),
    causes: ['spec.domain.devices.disks[0].encryption: Forbidden: must not be set together with source.encryption'],
    accepted: disk({ driver: { type: 'qcow2' }, source: { file: '/d' }, encryption: luks }),
  },
  {
    refused: encrypted({ ...luks, secret: { type: 'passphrase' } }),
    causes: [
      'spec.domain.devices.disks[0].source.encryption.secret.usage: Required value: must be set, or uuid, but not both: it identifies the secret',
    ],
    accepted: encrypted({ ...luks, secret: { type: 'passphrase', uuid: '53764d0e-85a0-42b4-af5c-2046b460b1dc' } }),
  },
  {
    refused: encrypted({ ...luks, secret: { ...passphrase, uuid: '53764d0e-85a0-42b4-af5c-2046b460b1dc' } }),
    causes: [
      'spec.domain.devices.disks[0].source.encryption.secret.usage: Required value: must be set, or uuid, but not both: it identifies the secret',
    ],
    accepted: encrypted(luks),
  },
  {
    refused: encrypted({ format: 'luks', secrets: [passphrase, { type: 'passphrase', usage: 'other' }] }),
    causes: [
      'spec.domain.devices.disks[0].source.encryption.secrets: Forbidden: must have one secret, which is what QEMU supports',
    ],
    accepted: encrypted({ format: 'luks', secrets: [passphrase] }),
  },
  {
    refused: encrypted({ ...luks, ivgen: { name: 'plain64' } }),
    causes: [
      'spec.domain.devices.disks[0].source.encryption.ivgen: Forbidden: must not be set: the image states how it is encrypted',
    ],
    accepted: encrypted(luks),
  },
  {
    refused: encrypted({ ...luks, ivgen: { name: 'plain64' }, cipher: { name: 'aes', size: 256 } }),
    causes: [
      'spec.domain.devices.disks[0].source.encryption.cipher: Forbidden: must not be set: the image states how it is encrypted',
    ],
    accepted: encrypted(luks),
  },
  {
    refused: encrypted({ ...luks, format: 'qcow' }),
    causes: [
      'spec.domain.devices.disks[0].source.encryption.format: Unsupported value: "qcow": is no longer supported by QEMU; did you mean "luks"?',
    ],
    accepted: encrypted(luks),
  },
  {
    refused: encrypted({ ...luks, format: 'default' }),
    causes: [
      'spec.domain.devices.disks[0].source.encryption.format: Unsupported value: "default": is no longer supported by QEMU; did you mean "luks"?',
    ],
    accepted: encrypted(luks),
  },
  {
    refused: encrypted({ ...luks, engine: 'librbd' }),
    causes: [
      'spec.domain.devices.disks[0].source.encryption.engine: Invalid value: "librbd": is only supported for protocol rbd',
    ],
    accepted: rbd({ ...luks, engine: 'librbd' }),
  },
  {
    refused: disk({
      type: 'network',
      source: { protocol: 'nbd', host: { name: 'h' }, encryption: { ...luks, engine: 'librbd' } },
    }),
    causes: [
      'spec.domain.devices.disks[0].source.encryption.engine: Invalid value: "librbd": is only supported for protocol rbd',
    ],
    accepted: rbd({ format: 'luks2', secrets: [passphrase, passphrase], engine: 'librbd' }),
  },
  {
    refused: encrypted({ ...luks, format: 'luks2' }),
    causes: [
      'spec.domain.devices.disks[0].source.encryption.format: Unsupported value: "luks2": requires engine librbd',
    ],
    accepted: rbd({ ...luks, format: 'luks2', engine: 'librbd' }),
  },
  {
    refused: encrypted({ ...luks, format: 'luks-any' }),
    causes: [
      'spec.domain.devices.disks[0].source.encryption.format: Unsupported value: "luks-any": requires engine librbd',
    ],
    accepted: rbd({ ...luks, format: 'luks-any', engine: 'librbd' }),
  },
])

const nvme = (source: Source): Domain => disk({ type: 'nvme', source: { type: 'pci', ...source } })

testSilent('nvme-namespace', [
  { devices: { disks: [{ type: 'nvme', device: 'cdrom', target: { dev: 'sda', bus: 'sata' } }] } },
  { devices: { disks: [{ type: 'nvme', device: 'floppy', target: { dev: 'fda' } }] } },
])

testRule('nvme-namespace', [
  {
    refused: nvme({ namespace: 0, address: { bus: 1 } }),
    causes: ['spec.domain.devices.disks[0].source.namespace: Invalid value: 0: must be at least 1'],
    accepted: nvme({ namespace: 1, address: { bus: 1 } }),
  },
  {
    refused: nvme({ address: { bus: 1 } }),
    causes: ['spec.domain.devices.disks[0].source.namespace: Required value: must be set for type nvme'],
    accepted: nvme({ namespace: 1, address: { bus: 1 } }),
  },
  {
    refused: disk({ type: 'nvme', source: { namespace: 1, address: { bus: 1 } } }),
    causes: ['spec.domain.devices.disks[0].source.type: Required value: must be set for type nvme; pci'],
    accepted: nvme({ namespace: 1, address: { bus: 1 } }),
  },
  {
    refused: nvme({ namespace: 1 }),
    causes: ['spec.domain.devices.disks[0].source.address: Required value: must be set for type nvme: the controller'],
    accepted: disk({ type: 'file', source: { file: '/d' } }),
  },
])

type Backing = NonNullable<Disk['backingStore']>

const backed = (backingStore: Backing): Domain =>
  disk({ driver: { type: 'qcow2' }, source: { file: '/d' }, backingStore })

const raw: Backing = { type: 'file', format: { type: 'raw' }, source: { file: '/b' } }

testRule('disk-backing-store', [
  {
    refused: backed({ type: 'file', source: { file: '/b' } }),
    causes: [
      'spec.domain.devices.disks[0].backingStore.format.type: Required value: must be set: the format of the backing image',
    ],
    accepted: backed(raw),
  },
  {
    refused: backed({ type: 'file' }),
    causes: [
      'spec.domain.devices.disks[0].backingStore.format.type: Required value: must be set: the format of the backing image',
      'spec.domain.devices.disks[0].backingStore.source: Required value: must be set: the location of the backing image',
    ],
    accepted: backed({}),
  },
  {
    refused: backed({ format: { type: 'raw' } }),
    causes: [
      'spec.domain.devices.disks[0].backingStore.source: Required value: must be set: the location of the backing image',
    ],
    accepted: backed(raw),
  },
  {
    refused: backed({ source: { file: '/b' } }),
    causes: [
      'spec.domain.devices.disks[0].backingStore.format.type: Required value: must be set: the format of the backing image',
    ],
    accepted: backed(raw),
  },
  {
    refused: backed({ ...raw, format: { type: 'iso' } }),
    causes: [
      'spec.domain.devices.disks[0].backingStore.format.type: Unsupported value: "iso": is not supported by QEMU',
    ],
    accepted: backed({ ...raw, format: { type: 'qcow2' } }),
  },
  {
    refused: backed({ ...raw, format: { type: 'dir' } }),
    causes: [
      'spec.domain.devices.disks[0].backingStore.format.type: Unsupported value: "dir": is not supported by QEMU',
    ],
    accepted: backed({ ...raw, format: { type: 'qed' } }),
  },
  {
    refused: backed({ ...raw, format: { type: 'cow' }, backingStore: { ...raw, format: {} } }),
    causes: [
      'spec.domain.devices.disks[0].backingStore.format.type: Unsupported value: "cow": is not supported by QEMU',
      'spec.domain.devices.disks[0].backingStore.backingStore.format.type: Required value: must be set: the format of the backing image',
    ],
    accepted: backed({ ...raw, backingStore: raw }),
  },
])

testRule('disk-transient', [
  {
    refused: disk({ source: { file: '/d' }, transient: {}, readonly: {} }),
    causes: ['spec.domain.devices.disks[0].transient: Forbidden: must not be set for a read-only disk'],
    accepted: disk({ source: { file: '/d' }, transient: {} }),
  },
  {
    refused: cdrom('sata', { transient: {}, source: { file: '/d' } }),
    causes: ['spec.domain.devices.disks[0].transient: Forbidden: must not be set for a read-only disk'],
    accepted: cdrom('sata'),
  },
  {
    refused: disk({ type: 'block', source: { dev: '/dev/sda' }, transient: {} }),
    causes: ['spec.domain.devices.disks[0].transient: Forbidden: can only be set for type file, not for block'],
    accepted: disk({ type: 'volume', source: { volume: 'v', pool: 'p' }, transient: {} }),
  },
  {
    refused: {
      devices: {
        disks: [
          { source: { file: '/d' }, target: { dev: 'vda' } },
          { type: 'block', device: 'floppy', target: { dev: 'fda' }, source: { dev: '/dev/fd0' }, transient: {} },
        ],
      },
    },
    causes: ['spec.domain.devices.disks[1].transient: Forbidden: must not be set for device floppy'],
    accepted: {
      devices: {
        disks: [
          { source: { file: '/d' }, target: { dev: 'vda' }, transient: {} },
          { source: { file: '/e' }, target: { dev: 'vdb' }, readonly: {} },
        ],
      },
    },
  },
])
