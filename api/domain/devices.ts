import { children, element, leaf } from './description.ts'
import { disk } from './disk.ts'
import { path } from './scalar.ts'

const byAlias = ['alias.name']

/** Each list of devices has its own file; in libvirt's own order. */
export const devices = element('Everything that the guest finds on its buses.', {
  emulator: leaf(path, 'The QEMU binary; the usual one of the architecture when absent.', { reach: 'host' }),
  disks: children('disk', disk, 'Disks, CD-ROM drives, floppy drives.', { key: [['target.dev'], byAlias] }),
})
