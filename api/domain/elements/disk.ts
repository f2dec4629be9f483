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
  type: attribute(oneOf(...storageFormats, 'aio'), 'The format of the image; `raw` if absent.'),
  cache: attribute(
    oneOf('default', 'none', 'writethrough', 'writeback', 'directsync', 'unsafe'),
    'How the page cache of the node is used.',
  ),
  errorPolicy: attribute(oneOf('stop', 'report', 'ignore', 'enospace'), 'What happens after a failed write.', {
    xml: 'error_policy',
  }),
  rerrorPolicy: attribute(
    oneOf('stop', 'report', 'ignore'),
    'What happens after a failed read; as `errorPolicy` if absent.',
    {
      xml: 'rerror_policy',
    },
  ),
  io: attribute(oneOf('threads', 'native', 'io_uring'), 'The I/O mode of QEMU.'),
  ioeventfd: attribute(onOff, "Whether requests are handled without stopping the guest's CPU."),
  eventIdx: attribute(onOff, 'Whether guest and QEMU suppress notifications that the other side does not need.', {
    xml: 'event_idx',
  }),
  copyOnRead: attribute(onOff, 'Whether data read from the backing image is copied into the image.', {
    xml: 'copy_on_read',
  }),
  discard: attribute(oneOf('unmap', 'ignore'), 'Whether space that the guest frees is freed in the image.'),
  discardNoUnref: attribute(onOff, 'Whether freed clusters stay allocated to the image.', { xml: 'discard_no_unref' }),
  iothread: attribute(uint32, 'The I/O thread that serves the disk, from 1 up to `iothreads`.'),
  detectZeroes: attribute(oneOf('off', 'on', 'unmap'), 'Whether writes of zeros are detected and optimized.', {
    xml: 'detect_zeroes',
  }),
  queues: attribute(positive32, 'The number of virtqueues.'),
  queueSize: attribute(positive32, 'The number of entries of each virtqueue.', { xml: 'queue_size' }),
  ...virtioFields,
  iothreads: child(iothreadMapping, 'Several I/O threads that serve the disk.'),
  metadataCache: child(metadataCache, 'The cache of the metadata of a qcow2 image.', { xml: 'metadata_cache' }),
})

const target = element('What the guest sees.', {
  dev: attribute(diskTarget, 'The name on the bus, which also orders the disks: `vda`, `sdb`, `hdc`, `fda`.'),
  bus: attribute(
    oneOf('virtio', 'scsi', 'sata', 'ide', 'usb', 'fdc', 'sd'),
    'The bus; derived from the name if absent.',
  ),
  tray: attribute(oneOf('closed', 'open'), 'Whether the tray of a removable drive is open.'),
  removable: attribute(onOff, 'Whether a USB or SCSI disk reports that it is removable.'),
  rotationRate: attribute(
    { ...uint32, max: 65_534 },
    'Rotations per minute that the disk reports; 1 for a non-rotating disk.',
    {
      xml: 'rotation_rate',
    },
  ),
})

const geometry = element('The geometry that the disk reports.', {
  cyls: attribute(uint32, 'Cylinders.'),
  heads: attribute(uint32, 'Heads.'),
  secs: attribute(uint32, 'Sectors per track.'),
  trans: attribute(oneOf('auto', 'none', 'lba'), 'The BIOS translation mode.'),
})

const blockio = element('The block sizes that the disk reports.', {
  logicalBlockSize: attribute(uint32, 'The smallest addressable unit in bytes.', { xml: 'logical_block_size' }),
  physicalBlockSize: attribute(uint32, 'The physical unit in bytes.', { xml: 'physical_block_size' }),
  discardGranularity: attribute(uint32, 'The unit in which space can be discarded, in bytes.', {
    xml: 'discard_granularity',
  }),
})

const throttlefilter = element('A throttle group that the disk is in.', {
  group: attribute(identifier, 'Its name among `throttlegroups`.'),
})
const throttlefilters = element('The throttle groups that the disk is in.', {
  throttlefilters: children('throttlefilter', throttlefilter, 'The groups, in the order in which they apply.', {
    whole: true,
  }),
})

const transient = element("The guest's writes are discarded when it stops.", {
  shareBacking: attribute(yesNo, 'Whether several VMs may use the image at the same time.'),
})

export const disk = element(
  'A disk, a CD-ROM drive, a floppy drive or a SCSI unit.',
  {
    type: sourceType,
    device: attribute(oneOf('disk', 'cdrom', 'floppy', 'lun'), 'What the guest sees; `disk` if absent.', {
      reachOf: { lun: 'host' },
      ofGrant: ['disk', 'cdrom', 'floppy'],
    }),
    model: virtioModel,
    rawio: attribute(yesNo, 'Whether QEMU may send raw SCSI commands.', host),
    sgio: attribute(oneOf('filtered', 'unfiltered'), 'Whether raw SCSI commands are filtered.', host),
    snapshot: attribute(oneOf('internal', 'external', 'manual', 'no'), 'How a snapshot of the VM treats this disk.'),
    driver: child(driver, 'How QEMU serves the disk.'),
    auth: child(auth, 'How QEMU authenticates to the server; newer definitions set it in `source`.', { ofGrant: [] }),
    source: child(diskSource, 'The location of the image; absent for an empty drive.'),
    backingStore: child(backingStore, 'The backing image; detected if absent.'),
    mirror: child(mirror, 'The destination of a running block job.', { live: true }),
    target: child(target, 'What the guest sees.'),
    geometry: child(geometry, 'The geometry that the disk reports.'),
    blockio: child(blockio, 'The block sizes that the disk reports.'),
    iotune: child(iotune, "Limits on the guest's reads and writes."),
    throttlefilters: child(throttlefilters, 'The throttle groups that the disk is in.'),
    readonly: present('The guest cannot write.', { ofGrant: ['*'] }),
    shareable: present('Several VMs may use the image at the same time.', { ofGrant: [] }),
    transient: child(transient, "The guest's writes are discarded when it stops.", { ofGrant: [] }),
    serial: leaf(diskSerial, 'The serial number.'),
    wwn: leaf({ kind: 'wwn' }, 'The World Wide Name: 16 hex digits.'),
    vendor: leaf(printable(8), 'The vendor that a SCSI disk reports.'),
    product: leaf(printable(40), 'The product that a SCSI disk reports.'),
    encryption: child(encryption, 'How the image is encrypted; newer definitions set it in `source`.', { ofGrant: [] }),
    boot: child(boot, 'The position in the boot order.'),
    ...deviceFields,
  },
  { union: { by: 'type', owns: ['source'], branches: sourceBranches('source') } },
)
