import { auth } from './auth.ts'
import { attribute, child, children, content, element, type Child, type Element } from '../description.ts'
import { encryption } from './encryption.ts'
import { reconnect } from './reconnect.ts'
import { hostName, int64, integer, oneOf, path, socketPath, uint32, uint64, yesNo } from '../scalar.ts'
import { sourceAddress } from './source-address.ts'
import { sourceSeclabel } from './source-seclabel.ts'
import { format } from './storage-format.ts'
import { anyPath, cookieName, cookieValue, fileName, genericName, line } from '../text.ts'

const host = { reach: 'host' } as const
const pod = { reach: 'pod' } as const

const sourceTypes = ['file', 'block', 'dir', 'network', 'volume', 'nvme', 'vhostuser', 'vhostvdpa'] as const

export const sourceType = attribute(
  oneOf(...sourceTypes),
  'The kind of source, which decides the fields of `source`; `file` if absent.',
)

const sourceHost = element('A server that provides the image.', {
  name: attribute(hostName, 'Host name or IP address.', pod),
  port: attribute({ ...uint32, max: 65_535 }, 'TCP port; the default of the protocol if absent.', pod),
  transport: attribute(oneOf('tcp', 'rdma', 'unix'), 'The transport; `tcp` if absent.', {
    reach: 'pod',
    reachOf: { unix: 'host', rdma: 'host' },
  }),
  socket: attribute(socketPath, 'The socket, with transport `unix`.', host),
})

const snapshot = element('A snapshot of the image, for RBD.', { name: attribute(genericName, 'Its name.') })
const config = element("A client's own configuration file, for RBD.", { file: attribute(path, 'The file.', host) })

const iqn = element('The name by which QEMU logs in.', { name: attribute(line(255), 'The iSCSI qualified name.', pod) })
export const initiator = element("QEMU's identity towards an iSCSI target.", { iqn: child(iqn, 'The qualified name.') })

const cookie = element('A cookie sent to an HTTP server.', {
  name: attribute(cookieName, 'Its name.'),
  value: content(cookieValue, 'Its value.'),
})
const cookies = element('Cookies sent to an HTTP server.', {
  cookies: children('cookie', cookie, 'Each cookie.', { key: [['name']] }),
})

const slice = element('A part of the image.', {
  type: attribute(oneOf('storage'), 'The kind of slice.'),
  offset: attribute(uint64, 'The offset in bytes.'),
  size: attribute(integer({ min: 1, max: 18_446_744_073_709_551_615n }), 'The length in bytes.'),
})
const slices = element('The part of the source that the guest sees.', { slice: child(slice, 'The part.') })

const reservationsSource = element('The socket of an already running helper.', {
  type: attribute(oneOf('unix'), 'The kind of socket.', host),
  path: attribute(socketPath, 'The socket.', host),
  mode: attribute(oneOf('client', 'server'), 'Which end QEMU is; always the client.', host),
  reconnect: child(reconnect, 'Whether to reconnect after the connection is lost.'),
})
const reservations = element('Persistent reservations of a SCSI disk, made by a helper.', {
  managed: attribute(yesNo, 'Whether libvirt starts the helper.', host),
  source: child(reservationsSource, 'The socket of an already running helper.'),
})

const identity = element("QEMU's identity towards an NFS or SSH server.", {
  user: attribute(genericName, 'User, with NFS.', pod),
  group: attribute(genericName, 'Group, with NFS.', pod),
  username: attribute(genericName, 'User, with SSH.', pod),
  keyfile: attribute(path, 'The private key, with SSH.', host),
  agentsock: attribute(socketPath, 'The socket of an agent, with SSH.', host),
})

const sourceFields = {
  file: attribute(anyPath, 'The image, with type `file`.', host),
  dev: attribute(anyPath, 'The block device or vhost-vDPA device, with type `block` or `vhostvdpa`.', host),
  dir: attribute(anyPath, 'The directory shown as a FAT disk, with type `dir`.', host),
  protocol: attribute(
    oneOf('nbd', 'iscsi', 'rbd', 'sheepdog', 'gluster', 'http', 'https', 'ftp', 'ftps', 'tftp', 'ssh', 'vxhs', 'nfs'),
    'The protocol of the server, with type `network`.',
    pod,
  ),
  name: attribute(
    line(4095),
    'The image on the server: `POOL/IMAGE`, `IQN/LUN`, `VOLUME/PATH`, an export, a path.',
    pod,
  ),
  query: attribute(line(4095), 'The query string of the URL.', pod),
  tls: attribute(yesNo, 'Whether the connection is encrypted.', pod),
  tlsHostname: attribute(hostName, "The name that the server's certificate must have.", pod),
  pool: attribute(line(255), "libvirt's storage pool; absent for a volume of this VM.", host),
  volume: attribute(fileName, "The volume: one of the VM's `volumes`, or of the pool.", pod),
  mode: attribute(oneOf('host', 'direct'), 'Whether the node or QEMU itself connects to an iSCSI pool.', host),
  type: attribute(oneOf('pci', 'unix'), 'The kind of address (nvme) or socket (vhostuser).', host),
  managed: attribute(yesNo, 'Whether libvirt detaches the NVMe controller from the driver of the node.', host),
  namespace: attribute(uint32, 'The NVMe namespace; from 1.', host),
  path: attribute(socketPath, 'The socket of the vhost-user daemon.', host),
  startupPolicy: attribute(
    oneOf('mandatory', 'requisite', 'optional'),
    'What happens if the source is missing: fail, fail only at boot, or start without it.',
  ),
  index: attribute(uint32, 'The node of the storage graph, reported by libvirt while the VM runs.', { live: true }),
  fdgroup: attribute(line(255), 'File descriptors handed to libvirt under this name.', host),
  hosts: children('host', sourceHost, 'The servers that provide the image.', { single: 'host' }),
  snapshot: child(snapshot, 'A snapshot of the image, for RBD.'),
  config: child(config, "A client's own configuration file, for RBD."),
  initiator: child(initiator, "QEMU's identity towards an iSCSI target."),
  address: child(sourceAddress, 'The PCI address of the NVMe controller.'),
  auth: child(auth, 'How QEMU authenticates to the server.'),
  encryption: child(encryption, 'How the image is encrypted.'),
  reservations: child(reservations, 'Persistent reservations of a SCSI disk.'),
  slices: child(slices, 'The part of the source that the guest sees.'),
  ssl: child(
    element('Verification of the certificate of an HTTPS or FTPS server.', {
      verify: attribute(yesNo, 'Whether it is verified.'),
    }),
    'Verification of the certificate of an HTTPS or FTPS server.',
  ),
  cookies: child(cookies, 'Cookies sent to an HTTP server.'),
  readahead: child(
    element('The read-ahead for an HTTP or FTP server.', { size: attribute(uint64, 'Bytes.') }),
    'The read-ahead for an HTTP or FTP server.',
  ),
  timeout: child(
    element('The timeout for an HTTP or FTP server.', { seconds: attribute(int64, 'Seconds.') }),
    'The timeout for an HTTP or FTP server.',
  ),
  identity: child(identity, "QEMU's identity towards an NFS or SSH server."),
  reconnect: child(reconnect, 'Whether to reconnect after the connection is lost, for NBD and vhost-user.'),
  knownHosts: child(
    element('The hosts that SSH knows.', { path: attribute(path, 'The file.', host) }),
    'The hosts that SSH knows.',
  ),
  seclabels: children('seclabel', sourceSeclabel, 'How security modules of the node label this source.', {
    key: [['model']],
    single: 'seclabel',
  }),
} as const

const common = ['startupPolicy', 'index', 'seclabels', 'encryption', 'slices', 'dataStore'] as const

const networkFields = [
  'protocol',
  'name',
  'query',
  'tls',
  'tlsHostname',
  'hosts',
  'snapshot',
  'config',
  'initiator',
  'auth',
  'ssl',
  'cookies',
  'readahead',
  'timeout',
  'identity',
  'reconnect',
  'knownHosts',
  'reservations',
]

/** The fields of `source` that libvirt reads, by type of source. */
export const sourceBranches = (prefix: string): { [type: string]: readonly string[] } => {
  const fields = (...own: string[]): readonly string[] => [...common, ...own].map((name) => `${prefix}.${name}`)
  return {
    file: fields('file', 'fdgroup'),
    block: fields('dev', 'reservations'),
    dir: fields('dir'),
    network: fields(...networkFields),
    volume: fields('pool', 'volume', 'mode', 'reservations'),
    nvme: fields('type', 'managed', 'namespace', 'address'),
    vhostuser: fields('type', 'path', 'reconnect'),
    vhostvdpa: fields('dev'),
  }
}

const dataStoreFields = {
  type: sourceType,
  format: child(format, 'The format of the data file; `raw`.'),
} as const

interface DataStore extends Element<typeof dataStoreFields & { readonly source: Child<DiskSource> }> {}

/** The location of an image. Recursive, because a data file of the image is described the same way. */
export interface DiskSource extends Element<typeof sourceFields & { readonly dataStore: Child<DataStore> }> {}

const dataStore: DataStore = element(
  'The file that contains the data of a qcow2 image that itself stores only metadata.',
  { ...dataStoreFields, source: child((): DiskSource => diskSource, 'The location of the data file.') },
  { union: { by: 'type', owns: ['source'], branches: sourceBranches('source') } },
)

export const diskSource: DiskSource = element(
  'The location of the image. The `type` beside it decides which fields apply.',
  {
    ...sourceFields,
    dataStore: child((): DataStore => dataStore, 'The file that contains the data of a qcow2 image.'),
  },
)
