import { sourceBranches } from '../../api/domain/elements/disk-source.ts'
import type { Domain } from '../../api/domain/domain.ts'
import { numberOf } from '../defaults/reading.ts'
import { eachDevice, list, type DeviceOf } from './device.ts'
import { forbidden, invalid, required, unsupported } from './finding.ts'
import { example, type Finding, type Rule } from './rule.ts'

type Disk = DeviceOf<'disks'>
type Source = NonNullable<Disk['source']>
type Auth = NonNullable<Disk['auth']>
type Encryption = NonNullable<Disk['encryption']>

const disk = (more: Disk): Domain => ({ devices: { disks: [{ target: { dev: 'vda' }, ...more }] } })

const iscsi = (more: Source): Domain =>
  disk({
    type: 'network',
    source: { protocol: 'iscsi', name: 'iqn.2017-01.example:disk/1', host: { name: 'example.org' }, ...more },
  })

/** The field of `source` that a disk of each type requires. */
const fieldOf: { readonly [type: string]: 'file' | 'dev' | 'dir' | 'path' | 'volume' | 'protocol' } = {
  file: 'file',
  block: 'dev',
  dir: 'dir',
  vhostuser: 'path',
  vhostvdpa: 'dev',
  volume: 'volume',
  network: 'protocol',
}

/** The fields of a source, by the type of the disk. */
const branches: { readonly [type: string]: readonly string[] } = Object.fromEntries(
  Object.entries(sourceBranches('source')).map(([type, paths]) => [
    type,
    paths.map((path) => path.slice('source.'.length)),
  ]),
)

const isEmptyable = ({ device, target }: Disk): boolean =>
  (device === 'cdrom' || device === 'floppy') && target?.bus !== 'usb'

const diskSource = eachDevice('disks')(
  'disk-source',
  'A disk must have a source; only a CD-ROM or floppy drive that is not on USB can be empty.',
  (one, at) => {
    const { type = 'file', source, device } = one
    const key = fieldOf[type]
    // A group of file descriptors replaces the file.
    if (key === undefined || source?.[key] !== undefined || source?.fdgroup !== undefined) return []
    if (isEmptyable(one)) return []
    // `disk-source-field` names the type to set.
    if (type === 'file' && source?.volume !== undefined) return []
    const message =
      device === 'cdrom' || device === 'floppy'
        ? 'must be set: a drive on bus usb cannot be empty'
        : `must be set for type ${type}`
    return [required(`${at}.source.${key}`, message)]
  },
  example(
    { devices: { disks: [{ type: 'file', target: { dev: 'vda' } }] } },
    { devices: { disks: [{ type: 'file', device: 'cdrom', target: { dev: 'sda', bus: 'sata' } }] } },
  ),
)

const diskSourceField = eachDevice('disks')(
  'disk-source-field',
  'The source of a disk must use the fields of its type: libvirt ignores those of another type.',
  function* ({ type = 'file', source = {} }, at) {
    const own = branches[type]
    if (own === undefined) return
    for (const key of ['file', 'dev', 'dir', 'volume', 'protocol'] as const) {
      if (source[key] === undefined || own.includes(key)) continue
      const types = Object.keys(branches).filter((other) => branches[other]?.includes(key))
      const message = `can only be set for type ${types.join(', ')}, not for ${type}`
      const suggestion = key === 'volume' ? 'set type: volume' : undefined
      yield forbidden(`${at}.source.${key}`, source[key], message, suggestion)
    }
  },
  example(
    { devices: { disks: [{ type: 'file', device: 'cdrom', source: { dev: '/dev/sr0' }, target: { dev: 'hdc' } }] } },
    { devices: { disks: [{ type: 'block', device: 'cdrom', source: { dev: '/dev/sr0' }, target: { dev: 'hdc' } }] } },
  ),
)

/** The type of secret that each protocol requires. */
const secretTypes: { readonly [protocol: string]: 'iscsi' | 'ceph' } = { iscsi: 'iscsi', rbd: 'ceph' }

function* checkAuth({ secret }: Auth, protocol: string | undefined, field: string): Iterable<Finding> {
  if (protocol === 'nbd' || protocol === 'gluster') {
    yield forbidden(field, undefined, `must not be set for protocol ${protocol}`)
    return
  }
  if (secret === undefined) return
  const { type, usage, uuid } = secret
  const expected = secretTypes[protocol ?? '']
  if (type !== undefined && expected !== undefined && type !== expected) {
    yield invalid(
      `${field}.secret.type`,
      type,
      `must be ${expected} for protocol ${protocol}`,
      `did you mean "${expected}"?`,
    )
  }
  if ((usage === undefined) === (uuid === undefined)) {
    yield required(`${field}.secret.usage`, 'must be set, or uuid, but not both: it identifies the secret')
  }
}

const diskAuth = eachDevice('disks', 'auth')(
  'disk-auth',
  'Authentication requires a user and a secret of the type of the protocol, in one place.',
  function* ({ type, auth, source }, at) {
    if (source?.auth && type !== undefined && type !== 'network')
      yield forbidden(`${at}.source.auth`, undefined, `can only be set for type network, not for ${type}`)
    if (auth && source?.auth) yield forbidden(`${at}.auth`, undefined, 'must not be set together with source.auth')
    if (auth) yield* checkAuth(auth, source?.protocol, `${at}.auth`)
    if (source?.auth) yield* checkAuth(source.auth, source.protocol, `${at}.source.auth`)
  },
  example(
    iscsi({ auth: { username: 'me', secret: { type: 'ceph', usage: 'mine' } } }),
    iscsi({ auth: { username: 'me', secret: { type: 'iscsi', usage: 'mine' } } }),
  ),
)

function* checkEncryption(
  one: Encryption,
  { driver, type }: Disk,
  protocol: string | undefined,
  field: string,
): Iterable<Finding> {
  const { format, engine, cipher, ivgen, secret, secrets } = one
  for (const [index, { usage, uuid }] of (secrets ?? (secret ? [secret] : [])).entries()) {
    const at = secrets ? `${field}.secrets[${index}]` : `${field}.secret`
    if ((usage === undefined) === (uuid === undefined))
      yield required(`${at}.usage`, 'must be set, or uuid, but not both: it identifies the secret')
  }
  if (ivgen && !cipher)
    yield forbidden(`${field}.ivgen`, undefined, 'must not be set: the image states how it is encrypted')
  if (cipher) yield forbidden(`${field}.cipher`, undefined, 'must not be set: the image states how it is encrypted')
  if (format === 'qcow' || format === 'default') {
    yield unsupported(`${field}.format`, format, 'is no longer supported by QEMU', 'did you mean "luks"?')
  }
  const count = secrets?.length ?? (secret ? 1 : 0)
  const image = driver?.type
  if (engine === 'librbd') {
    if (type !== 'network' || protocol !== 'rbd')
      yield invalid(`${field}.engine`, engine, 'is only supported for protocol rbd')
    return
  }
  if (count > 1) yield forbidden(`${field}.secrets`, undefined, 'must have one secret, which is what QEMU supports')
  if (format === 'luks2' || format === 'luks-any') {
    yield unsupported(`${field}.format`, format, 'requires engine librbd')
  }
  if (image !== undefined && image !== 'raw' && image !== 'qcow2' && image !== 'luks') {
    yield invalid(`${field}.format`, format, `is only supported for images of format raw and qcow2, not ${image}`)
  }
}

const secret = { type: 'passphrase' as const, usage: 'disk' }

const diskEncryption = eachDevice('disks', 'encryption')(
  'disk-encryption',
  'An encrypted image must be raw or qcow2, in LUKS, with a secret; encryption is set in one place, without a cipher.',
  function* (one, at) {
    const { encryption, source } = one
    if (encryption && source?.encryption) {
      yield forbidden(`${at}.encryption`, undefined, 'must not be set together with source.encryption')
    }
    if (encryption) yield* checkEncryption(encryption, one, source?.protocol, `${at}.encryption`)
    if (source?.encryption) yield* checkEncryption(source.encryption, one, source.protocol, `${at}.source.encryption`)
  },
  example(
    disk({
      driver: { type: 'vmdk' },
      source: { file: '/d', encryption: { format: 'luks', secret } },
    }),
    disk({
      driver: { type: 'qcow2' },
      source: { file: '/d', encryption: { format: 'luks', secret } },
    }),
  ),
)

const nvmeNamespace = eachDevice('disks')(
  'nvme-namespace',
  'An NVMe disk must name its controller and a namespace of at least 1.',
  ({ type, source, device }, at) => {
    if (type !== 'nvme' || (source === undefined && (device === 'cdrom' || device === 'floppy'))) return []
    const { namespace, address } = source ?? {}
    return [
      ...(source?.type === undefined ? [required(`${at}.source.type`, 'must be set for type nvme', 'pci')] : []),
      ...(namespace === undefined ? [required(`${at}.source.namespace`, 'must be set for type nvme')] : []),
      ...(numberOf(namespace) === 0 ? [invalid(`${at}.source.namespace`, namespace, 'must be at least 1')] : []),
      ...(address === undefined ? [required(`${at}.source.address`, 'must be set for type nvme: the controller')] : []),
    ]
  },
  example(
    disk({ type: 'nvme', source: { type: 'pci', namespace: 0, address: { bus: 1 } } }),
    disk({ type: 'nvme', source: { type: 'pci', namespace: 1, address: { bus: 1 } } }),
  ),
)

type Backing = NonNullable<Disk['backingStore']>

/** A backing store and those below it. */
function* checkBacking({ type, format, source, backingStore }: Backing, at: string): Iterable<Finding> {
  if (type !== undefined || format !== undefined || source !== undefined) {
    if (format?.type === undefined) yield required(`${at}.format.type`, 'must be set: the format of the backing image')
    if (source === undefined) yield required(`${at}.source`, 'must be set: the location of the backing image')
  }
  if (format?.type === 'iso' || format?.type === 'dir' || format?.type === 'cow')
    yield unsupported(`${at}.format.type`, format.type, 'is not supported by QEMU')
  if (backingStore) yield* checkBacking(backingStore, `${at}.backingStore`)
}

const diskBacking = eachDevice('disks', 'backingStore')(
  'disk-backing-store',
  'A backing store must have a source and a format that QEMU supports; `{}` means that there is none.',
  ({ backingStore }, at) => (backingStore ? checkBacking(backingStore, `${at}.backingStore`) : []),
  example(
    disk({ source: { file: '/d' }, backingStore: { type: 'file', source: { file: '/b' } } }),
    disk({ source: { file: '/d' }, backingStore: { type: 'file', format: { type: 'raw' }, source: { file: '/b' } } }),
  ),
)

const diskTransient: Rule = {
  id: 'disk-transient',
  description: 'Only a hard disk of type file that can be written to can be transient.',
  about: ['transient'],
  *check({ domain }) {
    for (const [index, { transient, readonly, device = 'disk', type = 'file' }] of list(domain, 'disks').entries()) {
      const at = `spec.domain.devices.disks[${index}].transient`
      if (transient === undefined) continue
      if (readonly !== undefined) yield forbidden(at, undefined, 'must not be set for a read-only disk')
      else if (device !== 'disk') yield forbidden(at, undefined, `must not be set for device ${device}`)
      else if (type !== 'file' && type !== 'volume')
        yield forbidden(at, undefined, `can only be set for type file, not for ${type}`)
    }
  },
  example: example(
    disk({ source: { file: '/d' }, transient: {}, readonly: {} }),
    disk({ source: { file: '/d' }, transient: {} }),
  ),
}

export const diskSourceRules: readonly Rule[] = [
  diskSource,
  diskSourceField,
  diskAuth,
  diskEncryption,
  nvmeNamespace,
  diskBacking,
  diskTransient,
]
