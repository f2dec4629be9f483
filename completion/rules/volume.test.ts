import type { Domain } from '../../api/domain/domain.ts'
import { testRule, testSilent } from '../../test/rule-table.ts'
import type { DeviceOf } from './device.ts'

const volumes = ['root', 'data'].map((name) => ({ name, emptyDisk: { capacity: '1Gi' } }))

type Disk = DeviceOf<'disks'>

const disks = (...given: (Disk & { readonly volume: string })[]): Domain => ({
  devices: {
    disks: given.map(({ volume, ...more }, index) => ({
      type: 'volume',
      source: { volume },
      target: { dev: `vd${String.fromCodePoint(97 + index)}` },
      ...more,
    })),
  },
})

testRule('volume-found', [
  {
    volumes,
    refused: disks({ volume: 'rot' }),
    causes: [
      'spec.domain.devices.disks[0].source.volume: Not found: "rot": no volume has this name; spec.volumes has root, data; did you mean "root"?',
    ],
    accepted: disks({ volume: 'root' }),
  },
  {
    volumes,
    refused: disks({ volume: 'elsewhere' }),
    causes: [
      'spec.domain.devices.disks[0].source.volume: Not found: "elsewhere": no volume has this name; spec.volumes has root, data',
    ],
    accepted: disks({ volume: 'data' }),
  },
  {
    refused: disks({ volume: 'root' }),
    causes: ['spec.domain.devices.disks[0].source.volume: Not found: "root": spec.volumes is empty'],
    accepted: {
      devices: { disks: [{ type: 'volume', source: { pool: 'default', volume: 'root' }, target: { dev: 'vda' } }] },
    },
  },
])

testRule('volume-found', [
  {
    volumes: Array.from({ length: 17 }, (_, index) => ({ name: `volume-${index}`, emptyDisk: { capacity: '1Gi' } })),
    refused: disks(...Array.from({ length: 17 }, (_, index) => ({ volume: `volum-${index}` }))),
    causes: Array.from(
      { length: 17 },
      (_, index) =>
        `spec.domain.devices.disks[${index}].source.volume: Not found: "volum-${index}": no volume has this name; ` +
        `spec.volumes has volume-0, volume-1, volume-2 and 14 more${index < 16 ? `; did you mean "volume-${index}"?` : ''}`,
    ),
    accepted: disks({ volume: 'volume-16' }),
  },
])

testRule('volume-once', [
  {
    volumes,
    refused: disks({ volume: 'root' }, { volume: 'root' }),
    causes: [
      'spec.domain.devices.disks[1].source.volume: Duplicate value: "root": spec.domain.devices.disks[0].source.volume already writes to this volume',
    ],
    accepted: disks({ volume: 'root' }, { volume: 'data' }),
  },
  {
    volumes,
    refused: disks({ volume: 'root' }, { volume: 'root' }),
    causes: [
      'spec.domain.devices.disks[1].source.volume: Duplicate value: "root": spec.domain.devices.disks[0].source.volume already writes to this volume',
    ],
    accepted: disks({ volume: 'root' }, { volume: 'root', readonly: {} }),
  },
  {
    volumes,
    refused: disks({ volume: 'root' }, { volume: 'root' }),
    causes: [
      'spec.domain.devices.disks[1].source.volume: Duplicate value: "root": spec.domain.devices.disks[0].source.volume already writes to this volume',
    ],
    accepted: disks({ volume: 'root', shareable: {} }, { volume: 'root', shareable: {} }),
  },
])

const images = [{ name: 'root', image: { reference: 'quay.io/containerdisks/debian:13' } }]

testRule('volume-image-format', [
  {
    volumes: images,
    refused: disks({ volume: 'root', driver: { type: 'raw' } }),
    causes: [
      'spec.domain.devices.disks[0].driver.type: Invalid value: "raw": must be qcow2, in which the changes of the guest are stored; the format of the image is detected',
    ],
    accepted: disks({ volume: 'root', driver: { type: 'qcow2' } }),
  },
  {
    volumes: [...images, ...volumes.slice(1)],
    refused: disks({ volume: 'data', driver: { type: 'raw' } }, { volume: 'root', driver: { type: 'raw' } }),
    causes: [
      'spec.domain.devices.disks[1].driver.type: Invalid value: "raw": must be qcow2, in which the changes of the guest are stored; the format of the image is detected',
    ],
    accepted: disks({ volume: 'data', driver: { type: 'raw' } }, { volume: 'root' }),
  },
])

testRule('volume-image-disk', [
  {
    volumes: images,
    refused: disks({ volume: 'root', backingStore: {} }),
    causes: [
      'spec.domain.devices.disks[0].backingStore: Forbidden: is not supported for a disk from a container image',
    ],
    accepted: disks({ volume: 'root' }),
  },
  {
    volumes: images,
    refused: disks({
      volume: 'root',
      source: { volume: 'root', slices: { slice: { type: 'storage', offset: 0, size: 512 } } },
    }),
    causes: [
      'spec.domain.devices.disks[0].source.slices: Forbidden: is not supported for a disk from a container image',
    ],
    accepted: disks({ volume: 'root' }),
  },
])

testSilent('volume-found', [
  { devices: { disks: [{ type: 'file', source: { file: '/d', volume: 'x' }, target: { dev: 'vda' } }] } },
  { devices: { disks: [{ type: 'volume', source: {}, target: { dev: 'vda' } }] } },
])
