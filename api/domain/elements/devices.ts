import { audio } from './audio.ts'
import { channel } from './channel.ts'
import { guestConsole } from './console.ts'
import { controller } from './controller.ts'
import { crypto } from './crypto.ts'
import { child, children, element, leaf } from '../description.ts'
import { disk } from './disk.ts'
import { filesystem } from './filesystem.ts'
import { graphics } from './graphics.ts'
import { hostdev } from './hostdev.ts'
import { hub } from './hub.ts'
import { input } from './input.ts'
import { networkInterface } from './interface.ts'
import { iommu } from './iommu.ts'
import { lease } from './lease.ts'
import { maxOnSharedBuses, maxParallels, maxTpms } from '../limits.ts'
import { memballoon } from './memballoon.ts'
import { memoryDevice } from './memory-device.ts'
import { panic } from './panic.ts'
import { parallel } from './parallel.ts'
import { pstore } from './pstore.ts'
import { redirdev } from './redirdev.ts'
import { redirfilter } from './redirfilter.ts'
import { rng } from './rng.ts'
import { path } from '../scalar.ts'
import { serial } from './serial.ts'
import { shmem } from './shmem.ts'
import { smartcard } from './smartcard.ts'
import { sound } from './sound.ts'
import { tpm } from './tpm.ts'
import { video } from './video.ts'
import { vsock } from './vsock.ts'
import { watchdog } from './watchdog.ts'

const byAlias = ['alias.name'] as const
const key = [byAlias]

/** Each kind of device has its own file; here in the order in which libvirt writes them. */
export const devices = element('Everything that the guest finds on its buses.', {
  emulator: leaf(path, 'The QEMU binary; the usual one of the architecture when absent.', { reach: 'host' }),
  disks: children('disk', disk, 'Disks, CD-ROM drives, floppy drives.', {
    key: [['target.dev'], byAlias],
    maxItems: maxOnSharedBuses,
  }),
  controllers: children('controller', controller, 'Buses, and what connects devices to them.', {
    key: [['type', 'index'], byAlias],
    maxItems: maxOnSharedBuses,
  }),
  leases: children('lease', lease, 'Leases of a lock manager of the node.', { key: [['lockspace', 'key']] }),
  filesystems: children('filesystem', filesystem, 'Directories that the guest can mount.', {
    key: [['target.dir'], byAlias],
  }),
  interfaces: children('interface', networkInterface, 'Network interfaces.', { key: [byAlias, ['mac.address']] }),
  smartcards: children('smartcard', smartcard, 'Smart card readers.', { key }),
  serials: children('serial', serial, 'Serial ports.', { key: [['target.port'], byAlias] }),
  parallels: children('parallel', parallel, 'Parallel ports.', {
    key: [['target.port'], byAlias],
    maxItems: maxParallels,
  }),
  consoles: children('console', guestConsole, 'Consoles.', { key: [['target.port'], byAlias] }),
  channels: children('channel', channel, 'Private channels between guest and node.', {
    key: [['target.name'], ['target.address', 'target.port'], byAlias],
  }),
  inputs: children('input', input, 'Mice, tablets and keyboards.', { key }),
  tpms: children('tpm', tpm, 'Trusted Platform Modules.', { key, maxItems: maxTpms }),
  graphics: children('graphics', graphics, 'Ways to see the screen.', { key: [['type']] }),
  sounds: children('sound', sound, 'Sound cards.', { key }),
  audios: children('audio', audio, 'Where sound goes and comes from.', { key: [['id']] }),
  videos: children('video', video, 'Graphics cards.', { key }),
  hostdevs: children('hostdev', hostdev, 'Devices of the node that are handed to the guest.', {
    key,
    maxItems: maxOnSharedBuses,
  }),
  redirdevs: children('redirdev', redirdev, 'USB devices that are plugged in at the viewer.', { key }),
  redirfilter: child(redirfilter, 'Which of these may be.'),
  hubs: children('hub', hub, 'USB hubs.', { key }),
  watchdogs: children('watchdog', watchdog, 'Clocks that act when the guest hangs.', { key: [['model']] }),
  memballoon: child(memballoon, 'By which memory is taken and given back; there is one when absent.'),
  rngs: children('rng', rng, 'Sources of random numbers.', { key }),
  panics: children('panic', panic, 'Devices with which the guest reports a crash.', { key: [['model']] }),
  shmems: children('shmem', shmem, 'Memory that VMs share.', { key: [['name']] }),
  memories: children('memory', memoryDevice, 'Memory that can be plugged in.', { key }),
  iommu: child(iommu, 'The IOMMU of the guest.'),
  vsock: child(vsock, 'Sockets between guest and node.', { reach: 'host' }),
  cryptos: children('crypto', crypto, 'Devices that encrypt for the guest.', { key }),
  pstore: child(pstore, 'Memory in which the guest keeps a record of its crash.'),
})
