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

/** Each kind of device has its own file. In libvirt's order. */
export const devices = element('Everything that the guest finds on its buses.', {
  emulator: leaf(path, 'The QEMU binary; the default one of the architecture if absent.', { reach: 'host' }),
  disks: children('disk', disk, 'Disks, CD-ROM drives, floppy drives.', {
    key: [['target.dev'], byAlias],
    maxItems: maxOnSharedBuses,
  }),
  controllers: children('controller', controller, 'Buses and bus controllers.', {
    key: [['type', 'index'], byAlias],
    partOf: 'master',
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
  graphics: children('graphics', graphics, "Displays of the guest's screen.", { key: [['type']] }),
  sounds: children('sound', sound, 'Sound cards.', { key }),
  audios: children('audio', audio, 'Audio backends.', { key: [['id']] }),
  videos: children('video', video, 'Graphics cards.', { key }),
  hostdevs: children('hostdev', hostdev, 'Devices of the node that are assigned to the guest.', {
    key,
    maxItems: maxOnSharedBuses,
  }),
  redirdevs: children('redirdev', redirdev, 'USB devices redirected from the viewer.', { key }),
  redirfilter: child(redirfilter, 'Which USB devices may be redirected.'),
  hubs: children('hub', hub, 'USB hubs.', { key }),
  watchdogs: children('watchdog', watchdog, 'Watchdogs that act if the guest hangs.', { key: [['model']] }),
  memballoon: child(memballoon, 'Reclaims memory from the guest and returns it; added if absent.'),
  rngs: children('rng', rng, 'Sources of random numbers.', { key }),
  panics: children('panic', panic, 'Devices that let the guest report a crash.', { key: [['model']] }),
  shmems: children('shmem', shmem, 'Memory that VMs share.', { key: [['name']] }),
  memories: children('memory', memoryDevice, 'Memory that can be plugged in.', { key }),
  iommu: child(iommu, 'The IOMMU of the guest.'),
  vsock: child(vsock, 'Sockets between guest and node.', { reach: 'host' }),
  cryptos: children('crypto', crypto, 'Devices that encrypt for the guest.', { key }),
  pstore: child(pstore, 'Memory in which the guest stores a record of its crash.'),
})
