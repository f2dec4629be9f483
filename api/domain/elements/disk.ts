import { deviceFields } from './address.ts'
import { auth } from './auth.ts'
import { backingStore } from './backing-store.ts'
import { boot } from './boot.ts'
import { attribute, child, children, element, leaf, present } from '../description.ts'
import { diskSource, sourceBranches, sourceType } from './disk-source.ts'
import { encryption } from './encryption.ts'
import { iothreadMapping } from './iothread-mapping.ts'
import { iotune } from './iotune.ts'
import { mirror } from './mirror.ts'
import { oneOf, onOff, positive32, uint32, yesNo } from '../scalar.ts'
import { metadataCache, storageFormats } from './storage-format.ts'
import { virtioFields, virtioModel } from './virtio.ts'
import { diskSerial, diskTarget, genericName, identifier, printable } from '../text.ts'

const host = { reach: 'host' } as const

const driver = element('How QEMU serves the disk.', {
  name: attribute(genericName, 'The driver: `qemu`.'),
  type: attribute(oneOf(...storageFormats, 'aio'), 'The format of the image; `raw` when absent.'),
  cache: attribute(
    oneOf('default', 'none', 'writethrough', 'writeback', 'directsync', 'unsafe'),
    'How the page cache of the node is used.',
  ),
  errorPolicy: attribute(oneOf('stop', 'report', 'ignore', 'enospace'), 'What a failed write does to the guest.', {
    xml: 'error_policy',
  }),
  rerrorPolicy: attribute(oneOf('stop', 'report', 'ignore'), 'What a failed read does; as `errorPolicy` when absent.', {
    xml: 'rerror_policy',
  }),
  io: attribute(oneOf('threads', 'native', 'io_uring'), 'How QEMU reads and writes.'),
  ioeventfd: attribute(onOff, 'Whether requests leave the guest without stopping its CPU.'),
  eventIdx: attribute(onOff, 'Whether guest and QEMU suppress notifications that the other side does not need.', {
    xml: 'event_idx',
  }),
  copyOnRead: attribute(onOff, 'Whether data read from the backing image is copied into the image.', {
    xml: 'copy_on_read',
  }),
  discard: attribute(oneOf('unmap', 'ignore'), 'Whether space that the guest frees is freed in the image.'),
  discardNoUnref: attribute(onOff, 'Whether freed clusters stay allocated to the image.', { xml: 'discard_no_unref' }),
  iothread: attribute(uint32, 'The I/O thread that serves the disk, from 1 up to `iothreads`.'),
  detectZeroes: attribute(oneOf('off', 'on', 'unmap'), 'Whether writes of zeros are found and made cheap.', {
    xml: 'detect_zeroes',
  }),
  queues: attribute(positive32, 'How many virtqueues there are.'),
  queueSize: attribute(positive32, 'Entries of each virtqueue.', { xml: 'queue_size' }),
  ...virtioFields,
  iothreads: child(iothreadMapping, 'Several I/O threads that serve the disk.'),
  metadataCache: child(metadataCache, 'The cache of the metadata of a qcow2 image.', { xml: 'metadata_cache' }),
})

const target = element('What the guest sees.', {
  dev: attribute(diskTarget, 'The name on the bus, which also orders the disks: `vda`, `sdb`, `hdc`, `fda`.'),
  bus: attribute(
    oneOf('virtio', 'scsi', 'sata', 'ide', 'usb', 'fdc', 'sd'),
    'The bus; follows from the name when absent.',
  ),
  tray: attribute(oneOf('closed', 'open'), 'Whether the tray of a removable drive is open.'),
  removable: attribute(onOff, 'Whether a USB or SCSI disk reports that it is removable.'),
  rotationRate: attribute({ ...uint32, max: 65_534 }, 'Rotations a minute that the disk claims; 1 for none.', {
    xml: 'rotation_rate',
  }),
})

const geometry = element('The geometry that the disk claims.', {
  cyls: attribute(uint32, 'Cylinders.'),
  heads: attribute(uint32, 'Heads.'),
  secs: attribute(uint32, 'Sectors a track.'),
  trans: attribute(oneOf('auto', 'none', 'lba'), 'How the BIOS translates it.'),
})

const blockio = element('The block sizes that the disk claims.', {
  logicalBlockSize: attribute(uint32, 'The smallest unit it can address, in bytes.', { xml: 'logical_block_size' }),
  physicalBlockSize: attribute(uint32, 'The unit it works in, in bytes.', { xml: 'physical_block_size' }),
  discardGranularity: attribute(uint32, 'The unit in which space can be freed, in bytes.', {
    xml: 'discard_granularity',
  }),
})

const throttlefilter = element('A throttle group that the disk is in.', {
  group: attribute(identifier, 'Its name among `throttlegroups`.'),
})
const throttlefilters = element('The throttle groups that the disk is in.', {
  throttlefilters: children('throttlefilter', throttlefilter, 'Each of them, in the order in which they count.', {
    whole: true,
  }),
})

const transient = element('What the guest writes is thrown away when it stops.', {
  shareBacking: attribute(yesNo, 'Whether several VMs may use the image at the same time.'),
})

/** A disk, CD-ROM drive, floppy drive or SCSI unit. */
export const disk = element(
  'A disk, a CD-ROM drive, a floppy drive or a SCSI unit.',
  {
    type: sourceType,
    device: attribute(oneOf('disk', 'cdrom', 'floppy', 'lun'), 'What the guest sees; `disk` when absent.', {
      reachOf: { lun: 'host' },
    }),
    model: virtioModel,
    rawio: attribute(yesNo, 'Whether QEMU may send raw SCSI commands.', host),
    sgio: attribute(oneOf('filtered', 'unfiltered'), 'Whether raw SCSI commands are filtered.', host),
    snapshot: attribute(oneOf('internal', 'external', 'manual', 'no'), 'How a snapshot of the VM treats this disk.'),
    driver: child(driver, 'How QEMU serves the disk.'),
    auth: child(auth, 'How QEMU authenticates to the server; newer definitions set it in `source`.'),
    source: child(diskSource, 'Where the image is; absent for an empty drive.'),
    backingStore: child(backingStore, 'The image below; found out when absent.'),
    mirror: child(mirror, 'Where a running block job copies the disk to.', { live: true }),
    target: child(target, 'What the guest sees.'),
    geometry: child(geometry, 'The geometry that the disk claims.'),
    blockio: child(blockio, 'The block sizes that the disk claims.'),
    iotune: child(iotune, 'Limits of what the guest reads and writes.'),
    throttlefilters: child(throttlefilters, 'The throttle groups that the disk is in.'),
    readonly: present('The guest cannot write.'),
    shareable: present('Several VMs may use the image at the same time.'),
    transient: child(transient, 'What the guest writes is thrown away when it stops.'),
    serial: leaf(diskSerial, 'The serial number.'),
    wwn: leaf({ kind: 'wwn' }, 'The World Wide Name: 16 hex digits.'),
    vendor: leaf(printable(8), 'The vendor that a SCSI disk claims.'),
    product: leaf(printable(40), 'The product that a SCSI disk claims.'),
    encryption: child(encryption, 'How the image is encrypted; in `source` nowadays.'),
    boot: child(boot, 'When the firmware tries this disk.'),
    ...deviceFields,
  },
  { union: { by: 'type', owns: ['source'], branches: sourceBranches('source') } },
)
