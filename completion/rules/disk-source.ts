import { sourceBranches } from '../../api/domain/disk-source.ts'
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

/** The field of `source` without which a source of that type is nowhere. */
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
  'A disk has a source; only a CD-ROM or floppy drive that is not on USB may be empty.',
  (one, at) => {
    const { type = 'file', source, device } = one
    const key = fieldOf[type]
    // A group of file descriptors stands for the file.
    if (key === undefined || (source?.[key] !== undefined && source[key] !== '') || source?.fdgroup !== undefined)
      return []
    if (isEmptyable(one)) return []
    const message =
      device === 'cdrom' || device === 'floppy'
        ? 'must be given: a drive on bus usb cannot be empty'
        : `must be given: a disk of type ${type} has a source`
    return [required(`${at}.source.${key}`, message)]
  },
  example(
    { devices: { disks: [{ type: 'file', target: { dev: 'vda' } }] } },
    { devices: { disks: [{ type: 'file', device: 'cdrom', target: { dev: 'sda', bus: 'sata' } }] } },
  ),
)

export const diskSourceField = eachDevice('disks')(
  'disk-source-field',
  'The source of a disk is told in the fields of its type: libvirt does not read those of another, and its schema does not know them.',
  function* ({ type = 'file', source = {} }, at) {
    const own = branches[type]
    if (own === undefined) return
    for (const key of ['file', 'dev', 'dir', 'volume', 'protocol'] as const) {
      if (source[key] === undefined || own.includes(key)) continue
      const types = Object.keys(branches).filter((other) => branches[other]?.includes(key))
      const message = `may not be given for type ${type}, only for ${types.join(', ')}`
      yield forbidden(`${at}.source.${key}`, source[key], message)
    }
  },
  example(
    { devices: { disks: [{ type: 'file', device: 'cdrom', source: { dev: '/dev/sr0' }, target: { dev: 'hdc' } }] } },
    { devices: { disks: [{ type: 'block', device: 'cdrom', source: { dev: '/dev/sr0' }, target: { dev: 'hdc' } }] } },
  ),
)

/** What the secret of each protocol is called. */
const secretTypes: { readonly [protocol: string]: 'iscsi' | 'ceph' } = { iscsi: 'iscsi', rbd: 'ceph' }

function* checkAuth({ username, secret }: Auth, protocol: string | undefined, field: string): Iterable<Finding> {
  if (protocol === 'nbd' || protocol === 'gluster') {
    yield forbidden(field, undefined, `may not be given for protocol ${protocol}`)
    return
  }
  if (username === undefined) yield required(`${field}.username`, 'must be given to authenticate')
  if (secret === undefined) {
    yield required(`${field}.secret`, 'must be given to authenticate')
    return
  }
  const { type, usage, uuid } = secret
  const wanted = secretTypes[protocol ?? '']
  if (type === undefined) yield required(`${field}.secret.type`, `must be given: ${wanted ?? 'iscsi or ceph'}`)
  else if (wanted !== undefined && type !== wanted) {
    yield invalid(
      `${field}.secret.type`,
      type,
      `must be ${wanted} for protocol ${protocol}`,
      `did you mean "${wanted}"?`,
    )
  }
  if ((usage === undefined) === (uuid === undefined)) {
    yield required(`${field}.secret.usage`, 'must be given, or uuid, and not both: which secret it is')
  }
}

const diskAuth = eachDevice('disks', 'auth')(
  'disk-auth',
  'Who authenticates to a server says the user and a secret of the kind that the protocol has, once.',
  function* ({ type, auth, source }, at) {
    if (source?.auth && type !== undefined && type !== 'network')
      yield forbidden(`${at}.source.auth`, undefined, `may not be given for type ${type}, only for network`)
    if (auth && source?.auth) yield forbidden(`${at}.auth`, undefined, 'may not be given beside source.auth')
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
  for (const [index, { type: kind, usage, uuid }] of (secrets ?? (secret ? [secret] : [])).entries()) {
    const at = secrets ? `${field}.secrets[${index}]` : `${field}.secret`
    if (kind === undefined) yield required(`${at}.type`, 'must be given', 'passphrase')
    if ((usage === undefined) === (uuid === undefined))
      yield required(`${at}.usage`, 'must be given, or uuid, and not both: which secret it is')
  }
  if (ivgen && !cipher)
    yield forbidden(`${field}.ivgen`, undefined, 'may not be given: the image says itself how it is encrypted')
  if (cipher)
    yield forbidden(`${field}.cipher`, undefined, 'may not be given: the image says itself how it is encrypted')
  if (format === undefined) yield required(`${field}.format`, 'must be given')
  if (format === 'qcow' || format === 'default') {
    yield unsupported(
      `${field}.format`,
      format,
      'is no longer supported: the old encryption of qcow',
      'did you mean "luks"?',
    )
  }
  const count = secrets?.length ?? (secret ? 1 : 0)
  const image = driver?.type
  if (engine === 'librbd') {
    if (type !== 'network' || protocol !== 'rbd')
      yield invalid(`${field}.engine`, engine, 'decrypts disks of protocol rbd only')
    return
  }
  if (count > 1)
    yield forbidden(`${field}.secrets`, undefined, 'must be one: QEMU itself decrypts with a single secret')
  if (format === 'luks2' || format === 'luks-any') {
    yield unsupported(`${field}.format`, format, 'is decrypted by engine librbd only')
  }
  if (image !== undefined && image !== 'raw' && image !== 'qcow2' && image !== 'luks') {
    yield invalid(`${field}.format`, format, `is possible with images of format raw and qcow2 only, not ${image}`)
  }
}

const secret = { type: 'passphrase' as const, usage: 'disk' }

const diskEncryption = eachDevice('disks', 'encryption')(
  'disk-encryption',
  'An encrypted image is raw or qcow2, in LUKS, with a secret; encryption is described once, without a cipher.',
  function* (one, at) {
    const { encryption, source } = one
    if (encryption && source?.encryption) {
      yield forbidden(`${at}.encryption`, undefined, 'may not be given beside source.encryption')
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
  'An NVMe disk names the controller and a namespace, from 1.',
  ({ type, source }, at) => {
    if (type !== 'nvme') return []
    const { namespace, address } = source ?? {}
    return [
      ...(source?.type === undefined ? [required(`${at}.source.type`, 'must be given for type nvme', 'pci')] : []),
      ...(namespace === undefined ? [required(`${at}.source.namespace`, 'must be given for type nvme')] : []),
      ...(numberOf(namespace) === 0 ? [invalid(`${at}.source.namespace`, namespace, 'must be at least 1')] : []),
      ...(address === undefined
        ? [required(`${at}.source.address`, 'must be given for type nvme: the controller')]
        : []),
    ]
  },
  example(
    disk({ type: 'nvme', source: { type: 'pci', namespace: 0, address: { bus: 1 } } }),
    disk({ type: 'nvme', source: { type: 'pci', namespace: 1, address: { bus: 1 } } }),
  ),
)

type Backing = NonNullable<Disk['backingStore']>

/** Images below images, as deep as they go. */
function* checkBacking({ type, format, source, backingStore }: Backing, at: string): Iterable<Finding> {
  if (type !== undefined || format !== undefined || source !== undefined) {
    if (format?.type === undefined) yield required(`${at}.format.type`, 'must be given: the format of the image below')
    if (source === undefined) yield required(`${at}.source`, 'must be given: where the image below is')
  }
  if (format?.type === 'iso' || format?.type === 'dir' || format?.type === 'cow')
    yield unsupported(`${at}.format.type`, format.type, 'is a format that QEMU does not serve')
  if (backingStore) yield* checkBacking(backingStore, `${at}.backingStore`)
}

const diskBacking = eachDevice('disks', 'backingStore')(
  'disk-backing-store',
  'An image below another has a format that QEMU serves, and a source; `{}` says that there is none.',
  ({ backingStore }, at) => (backingStore ? checkBacking(backingStore, `${at}.backingStore`) : []),
  example(
    disk({ source: { file: '/d' }, backingStore: { type: 'file', source: { file: '/b' } } }),
    disk({ source: { file: '/d' }, backingStore: { type: 'file', format: { type: 'raw' }, source: { file: '/b' } } }),
  ),
)

const diskTransient: Rule = {
  id: 'disk-transient',
  description: 'What is thrown away when the VM stops is the file of a hard disk that can be written.',
  about: ['transient'],
  *check({ domain }) {
    for (const [index, { transient, readonly, device = 'disk', type = 'file' }] of list(domain, 'disks').entries()) {
      const at = `spec.domain.devices.disks[${index}].transient`
      if (transient === undefined) continue
      if (readonly !== undefined)
        yield forbidden(at, undefined, 'may not be given for a read-only disk, to which nothing is written')
      else if (device !== 'disk') yield forbidden(at, undefined, `may not be given for device ${device}`)
      else if (type !== 'file' && type !== 'volume')
        yield forbidden(at, undefined, `may be given for type file only, not for ${type}`)
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
