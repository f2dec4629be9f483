import { deviceFields } from './address.ts'
import { boot } from './boot.ts'
import { attribute, child, children, element, present } from '../description.ts'
import { oneOf, onOff, path, socketPath, uint32, uint64 } from '../scalar.ts'
import { storageFormats } from './storage-format.ts'
import { virtioFields, virtioModel } from './virtio.ts'
import { fileMode, fileName, line } from '../text.ts'

const host = { reach: 'host' } as const

const driver = element('How the directory is shared.', {
  type: attribute(oneOf('path', 'handle', 'virtiofs', 'mtp', 'loop', 'nbd'), 'By 9p (`path`), virtiofs or MTP.'),
  format: attribute(oneOf(...storageFormats), 'The format of an image.'),
  wrpolicy: attribute(oneOf('immediate'), 'When writes reach the disk of the node; the node decides if absent.'),
  queue: attribute(uint32, 'The number of entries of the request queue, with virtiofs.'),
  ...virtioFields,
})

const binary = element('The virtiofsd daemon.', {
  path: attribute(path, 'The program.', host),
  xattr: attribute(onOff, 'Whether the guest may use extended attributes.', { ofGrant: ['false'] }),
  cache: child(
    element('What the guest caches.', { mode: attribute(oneOf('none', 'always'), '`none` or everything.') }),
    'What the guest caches.',
  ),
  sandbox: child(
    element('How the daemon is confined.', { mode: attribute(oneOf('namespace', 'chroot'), 'The method.') }),
    'How the daemon is confined.',
  ),
  lock: child(
    element('Locks of the guest that the node takes as well.', {
      posix: attribute(onOff, 'POSIX locks.'),
      flock: attribute(onOff, 'BSD locks.'),
    }),
    'Locks of the guest that the node takes as well.',
  ),
  threadPool: child(
    element('Threads that serve requests.', {
      size: attribute({ kind: 'integer', min: 0, max: 2_147_483_647 }, 'The number of threads.'),
    }),
    'Threads that serve requests.',
    { xml: 'thread_pool' },
  ),
  openfiles: child(
    element('Files that may be open.', { max: attribute(uint64, 'The maximum number.') }),
    'Files that may be open.',
  ),
})

const idEntry = element('A range of IDs.', {
  start: attribute(uint32, 'The first ID in the guest.', host),
  target: attribute(uint32, 'The ID on the node that it is mapped to.', host),
  count: attribute(uint32, 'The number of IDs.', host),
})

const idmap = element('How user and group IDs of the guest are mapped to IDs of the node.', {
  uids: children('uid', idEntry, 'User IDs.'),
  gids: children('gid', idEntry, 'Group IDs.'),
})

const source = element('What is shared.', {
  dir: attribute(path, 'A directory.', host),
  socket: attribute(socketPath, 'The socket of an already running virtiofsd.', host),
  file: attribute(path, 'An image.', host),
  volume: attribute(fileName, "One of the VM's `volumes`, a claim with a file system; with type `volume`.", {
    reach: 'pod',
  }),
})

const mode = (description: string) => attribute(fileMode, description, { ofGrant: [] })

export const filesystem = element('A directory that the guest can mount.', {
  type: attribute(oneOf('mount', 'volume'), 'What is shared: a directory, or a volume of this VM.', {
    reach: 'pod',
    reachOf: { mount: 'host' },
  }),
  accessmode: attribute(
    oneOf('passthrough', 'mapped', 'squash'),
    'The identity with which files are accessed; 9p only.',
    { ofGrant: [] },
  ),
  multidevs: attribute(
    oneOf('default', 'remap', 'forbid', 'warn'),
    'What happens if the directory spans several devices; 9p only.',
  ),
  model: virtioModel,
  fmode: mode('The mode of new files, octal, with `mapped`.'),
  dmode: mode('The mode of new directories, octal, with `mapped`.'),
  driver: child(driver, 'How the directory is shared.'),
  binary: child(binary, 'The virtiofsd daemon.'),
  idmap: child(idmap, 'How user and group IDs of the guest are mapped to IDs of the node.'),
  source: child(source, 'What is shared.'),
  target: child(
    element('What the guest sees.', { dir: attribute(line(255), 'The tag by which the guest mounts it.') }),
    'What the guest sees.',
  ),
  readonly: present('The guest cannot write.', { ofGrant: ['*'] }),
  boot: child(boot, 'The position in the boot order.'),
  ...deviceFields,
})
