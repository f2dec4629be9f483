import type { Domain } from '../../api/domain/domain.ts'
import { integerOf } from '../../api/domain/scalar-value.ts'
import { eachDevice, type DeviceOf } from './device.ts'
import { forbidden, forbidEach, invalid, required, unsupported } from './finding.ts'
import { example, type Finding, type Rule } from './rule.ts'

const disk = (more: DeviceOf<'disks'>): Domain => ({
  devices: { disks: [{ type: 'file', source: { file: '/disk.img' }, target: { dev: 'vda' }, ...more }] },
})

/** Formats that libvirt knows and QEMU does not support, and the fix. */
const unservedFormats: { readonly [format: string]: string } = {
  dir: 'to show a directory as a disk, use type: dir',
  iso: 'did you mean "raw"?',
  cow: 'convert the image to qcow2',
  luks: 'format raw, and source.encryption: {format: luks}',
}

const diskFormat = eachDevice('disks')(
  'disk-format',
  'The driver of a disk must be qemu, and its format one that QEMU supports.',
  ({ driver, type, source, readonly }, at) => {
    const { name, type: format, io, cache } = driver ?? {}
    const findings: Finding[] = []
    if (name !== undefined && name !== 'qemu') findings.push(unsupported(`${at}.driver.name`, name, 'must be qemu'))
    const instead = unservedFormats[format ?? '']
    if (instead !== undefined) {
      findings.push(unsupported(`${at}.driver.type`, format, 'is not supported by QEMU', instead))
    } else if (type === 'dir' && source !== undefined && format !== undefined && format !== 'fat') {
      findings.push(invalid(`${at}.driver.type`, format, 'must be fat: QEMU shows a directory as a FAT disk'))
    } else if (type === 'dir' && source !== undefined && readonly === undefined) {
      findings.push(required(`${at}.readonly`, 'must be set: a directory shown as a disk is read-only'))
    }
    // libvirt learns only at start whether a volume of a pool is a directory.
    if (format === 'fat' && type !== 'dir' && source?.pool === undefined)
      findings.push(invalid(`${at}.driver.type`, format, 'is only supported for type dir and volumes of storage pools'))
    if (io === 'native' && cache !== 'none' && cache !== 'directsync') {
      findings.push(invalid(`${at}.driver.io`, io, 'is only supported with cache none or directsync'))
    }
    return findings
  },
  example(disk({ driver: { type: 'iso' } }), disk({ driver: { type: 'raw' } })),
)

/** Options that only disks on bus virtio have. */
const virtioOptions = [
  'driver.queues',
  'driver.queueSize',
  'driver.ioeventfd',
  'driver.eventIdx',
  'driver.iothread',
  'driver.iothreads',
  'driver.iommu',
  'driver.ats',
  'driver.packed',
  'driver.pagePerVq',
  'model',
]

const diskDriver = eachDevice('disks')(
  'disk-driver',
  'Only disks on bus virtio have queues, event notification, I/O threads, the options of virtio and a model.',
  function* (one, at) {
    const { bus } = one.target ?? {}
    if (bus !== undefined && bus !== 'virtio') {
      yield* forbidEach(one, at, virtioOptions, `can only be set for disks on bus virtio, not on ${bus}`)
    }
  },
  example(
    disk({ target: { dev: 'sda', bus: 'sata' }, driver: { queues: 2 } }),
    disk({ target: { dev: 'vda', bus: 'virtio' }, driver: { queues: 2 } }),
  ),
)

const diskCopyOnRead = eachDevice('disks', 'copyOnRead')(
  'disk-copy-on-read',
  'Copy on read requires a hard disk that can be written to.',
  ({ driver, device = 'disk', readonly }, at) => {
    if (driver?.copyOnRead !== true) return []
    const field = `${at}.driver.copyOnRead`
    if (device !== 'disk') return [forbidden(field, true, `is not supported for device ${device}`)]
    return readonly === undefined ? [] : [forbidden(field, true, 'is not supported for a read-only disk: it writes')]
  },
  example(disk({ driver: { copyOnRead: true }, readonly: {} }), disk({ driver: { copyOnRead: true } })),
)

/** Options for the data of a disk, which does not pass through QEMU. */
const dataOptions = [
  'driver.cache',
  'driver.errorPolicy',
  'driver.rerrorPolicy',
  'driver.io',
  'driver.ioeventfd',
  'driver.copyOnRead',
  'driver.discard',
  'driver.iothread',
  'driver.iothreads',
  'driver.detectZeroes',
  'driver.metadataCache',
  'iotune',
  'backingStore',
  'encryption',
  'readonly',
  'shareable',
  'transient',
  'serial',
  'auth',
  'geometry',
  'blockio',
]

const diskVhostuser = eachDevice('disks')(
  'disk-vhostuser',
  'The data of a vhostuser disk does not pass through QEMU: options for the data and snapshots are not supported.',
  function* (one, at) {
    if (one.type === 'vhostvdpa') {
      const { cache } = one.driver ?? {}
      if (cache !== 'none' && cache !== 'directsync') {
        yield invalid(`${at}.driver.cache`, cache ?? 'default', 'must be none or directsync for type vhostvdpa')
      }
    }
    if (one.type !== 'vhostuser') return
    if (one.source?.type === undefined) yield required(`${at}.source.type`, 'must be set for type vhostuser', 'unix')
    if (one.snapshot !== undefined && one.snapshot !== 'no') {
      yield invalid(`${at}.snapshot`, one.snapshot, 'must be no for type vhostuser')
    }
    yield* forbidEach(one, at, dataOptions, 'must not be set for type vhostuser: the data does not pass through QEMU')
  },
  example(served({ cache: 'none' }), served({ queues: 2 })),
)

function served(driver: NonNullable<DeviceOf<'disks'>['driver']>): Domain {
  return {
    ...disk({ type: 'vhostuser', source: { type: 'unix', path: '/s' }, driver: { type: 'raw', ...driver } }),
    memoryBacking: { source: { type: 'memfd' }, access: { mode: 'shared' } },
  }
}

/** In bytes: enough for the metadata of an image of 8 TiB. */
const largestMetadataCache = 1024n ** 3n

const diskMetadataCache = eachDevice('disks', 'metadataCache')(
  'disk-metadata-cache',
  'The metadata cache of an image must be at most 1 GiB, which is enough for 8 TiB.',
  function* ({ driver, backingStore }, at) {
    const caches = [{ cache: driver?.metadataCache, field: `${at}.driver` }]
    let field = `${at}.backingStore`
    for (let layer = backingStore; layer !== undefined; layer = layer.backingStore) {
      caches.push({ cache: layer.format?.metadataCache, field: `${field}.format` })
      field += '.backingStore'
    }
    for (const { cache, field: of } of caches) {
      const bytes = integerOf(cache?.maxSize?.value) ?? 0n
      if (bytes <= largestMetadataCache) continue
      const message = 'must be at most 1 GiB, which is enough for an image of 8 TiB'
      yield invalid(`${of}.metadataCache.maxSize.value`, String(bytes), message)
    }
  },
  example(
    disk({ driver: { type: 'qcow2', metadataCache: { maxSize: { unit: 'GiB', value: 2 } } } }),
    disk({ driver: { type: 'qcow2', metadataCache: { maxSize: { unit: 'GiB', value: 1 } } } }),
  ),
)

const diskQcow2 = eachDevice('disks', 'discardNoUnref', 'dataStore', 'metadataCache')(
  'disk-qcow2',
  '`metadataCache`, `dataStore` and `discardNoUnref` require format qcow2; `discardNoUnref` requires a disk that can be written to.',
  ({ driver, source, readonly }, at) => {
    const findings: Finding[] = []
    const { discardNoUnref } = driver ?? {}
    const { dataStore } = source ?? {}
    if (discardNoUnref === true && readonly !== undefined) {
      findings.push(forbidden(`${at}.driver.discardNoUnref`, true, 'is not supported for a read-only disk'))
    }
    if (dataStore) {
      const { format, source: data } = dataStore
      const field = `${at}.source.dataStore`
      if (format?.type !== undefined && format.type !== 'raw')
        findings.push(invalid(`${field}.format.type`, format.type, 'must be raw'))
      findings.push(
        ...forbidEach(dataStore, field, ['source.slices', 'source.dataStore'], 'is not supported in a data store'),
      )
      if (data === undefined) findings.push(required(`${field}.source`, 'must be set: the data file'))
    }
    if (driver?.type === 'qcow2' || driver?.type === undefined) return findings
    const message = `can only be set for format qcow2, not for ${driver.type}`
    if (discardNoUnref === true) findings.push(forbidden(`${at}.driver.discardNoUnref`, true, message))
    return [...findings, ...forbidEach({ driver, source }, at, ['driver.metadataCache', 'source.dataStore'], message)]
  },
  example(
    disk({ driver: { type: 'raw', discardNoUnref: true } }),
    disk({ driver: { type: 'qcow2', discardNoUnref: true } }),
  ),
)

export const diskDriverRules: readonly Rule[] = [
  diskFormat,
  diskDriver,
  diskCopyOnRead,
  diskVhostuser,
  diskMetadataCache,
  diskQcow2,
]
