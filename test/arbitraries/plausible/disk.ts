import fc from 'fast-check'
import type { DeviceOf } from '../../../completion/defaults/rule.ts'
import { drive, pci, usbAddress, virtioOptions } from './address.ts'
import { any, many, part, rarely, small, weighted, type Json } from './part.ts'

type Disk = DeviceOf<'disks'>

const busPrefixes: { readonly [bus: string]: string } = {
  virtio: 'vd',
  scsi: 'sd',
  sata: 'sd',
  usb: 'sd',
  ide: 'hd',
  fdc: 'fd',
}

const disk = fc
  .tuple(
    rarely(
      {
        bus: weighted(
          [20, fc.constantFrom('virtio', 'scsi', 'sata', 'usb', 'ide', 'virtio', 'fdc')],
          [1, any('devices.disks.target.bus')],
        ),
      },
      { addressKind: fc.constantFrom('pci', 'drive', 'usb') },
    ),
    rarely(
      {},
      {
        device: fc.constantFrom('disk', 'cdrom', 'cdrom', 'lun', 'floppy'),
        model: any('devices.disks.model'),
        readonly: fc.constant({}),
        shareable: fc.constant({}),
        serial: fc.constantFrom('abc', 'WD-1234'),
        boot: part({ order: fc.integer({ min: 1, max: 4 }) }),
        driver: rarely(
          { name: fc.constant('qemu') },
          {
            type: fc.constantFrom('raw', 'qcow2', 'vmdk'),
            cache: any('devices.disks.driver.cache'),
            io: any('devices.disks.driver.io'),
            discard: any('devices.disks.driver.discard'),
            detectZeroes: any('devices.disks.driver.detectZeroes'),
            iothread: fc.integer({ min: 1, max: 3 }),
            queues: fc.integer({ min: 1, max: 4 }),
            ioeventfd: fc.boolean(),
            ...virtioOptions,
          },
        ),
        iotune: fc.oneof(
          part({ totalBytesSec: small(10_000) }, { totalIopsSec: small(1000) }),
          part({ readBytesSec: small(10_000) }, { totalIopsSec: small(1000) }),
        ),
        blockio: part(
          {},
          { logicalBlockSize: fc.constantFrom(512, 4096), physicalBlockSize: fc.constantFrom(512, 4096) },
        ),
      },
    ),
    weighted(
      [4, fc.constant({ type: 'file', source: { file: '/disks/a.img' } })],
      [1, fc.constant({ type: 'block', source: { dev: '/dev/loop0' } })],
      [1, fc.constant({ type: 'network', source: { protocol: 'nbd', host: { name: 'example.org', port: 10809 } } })],
      [
        1,
        fc.constant({
          type: 'network',
          source: { protocol: 'iscsi', name: 'iqn.2001-04.org.example:a/1', host: { name: 'example.org', port: 3260 } },
        }),
      ],
      [1, fc.constant({ type: 'file' })],
    ),
    fc.record({ pci, drive, usb: usbAddress }),
    small(30),
  )
  .map(([{ bus, addressKind }, rest, source, addresses, other]) => (index: number): Json => ({
    ...Object(source),
    ...rest,
    target: {
      // Sometimes two disks have the same name.
      dev: `${busPrefixes[String(bus)] ?? 'vd'}${String.fromCodePoint(97 + (other === 0 ? 0 : index))}`,
      ...(other % 2 === 0 || bus === 'usb' || bus === 'sata' ? { bus } : {}),
    },
    ...(addressKind === undefined
      ? {}
      : { address: new Map<unknown, unknown>(Object.entries(addresses)).get(addressKind) }),
  }))

export const disks = many(disk, 4)

/** Makes the bus fit the device, the options fit the bus, and the medium fit its kind. */
export const carefulDisk = (
  { model, driver, address, device: stated, readonly: isReadonly, ...disk }: Disk,
  threads: number,
  isQ35: boolean,
): Disk => {
  const named = disk.target?.bus ?? busOfName(disk.target?.dev)
  const wanted = named === 'ide' && isQ35 ? 'sata' : named
  const canBeLun = disk.type === 'block' && (wanted === 'virtio' || wanted === 'scsi')
  const device = (stated === 'floppy') === (wanted === 'fdc') && (stated !== 'lun' || canBeLun) ? stated : undefined
  const bus = wanted === 'fdc' && device !== 'floppy' ? 'scsi' : wanted
  const isDrive = device === 'cdrom' || device === 'floppy'
  const { iommu: _i, ats: _a, packed: _p, queues: _q, ioeventfd: _e, iothread, ...plain } = driver ?? {}
  const served = bus === 'virtio' ? driver : plain
  const kind = bus === 'virtio' ? 'pci' : bus === 'usb' ? 'usb' : 'drive'
  const isEmpty = disk.source === undefined && !isDrive
  return {
    ...disk,
    ...(isEmpty ? { source: { file: '/disks/b.img' } } : {}),
    ...(device === undefined || (device === 'cdrom' && bus === 'virtio') ? {} : { device }),
    ...(isReadonly && (isDrive || bus === 'virtio' || bus === 'scsi' || bus === 'usb') ? { readonly: {} } : {}),
    ...(disk.target ? { target: carefulTarget(disk.target, bus, named) } : {}),
    ...(model !== undefined && bus === 'virtio' ? { model } : {}),
    ...(driver ? { driver: Number(iothread ?? 0) > threads ? plain : served } : {}),
    ...(address?.type === kind ? { address } : {}),
  } as Disk
}

const busOfName = (dev = ''): string =>
  Object.entries(busPrefixes).find(([, prefix]) => dev.startsWith(prefix))?.[0] ?? 'virtio'

/** Renames a drive whose name does not match its bus. */
const carefulTarget = (target: NonNullable<Disk['target']>, bus: string, named: string): object => {
  if (bus === named) return target
  return { ...target, dev: `${busPrefixes[bus]}${target.dev?.slice(2)}`, bus }
}
