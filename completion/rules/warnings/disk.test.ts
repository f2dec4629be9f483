import type { Domain } from '../../../api/domain/domain.ts'
import { testWarning } from '../../../test/rule-table.ts'
import type { DeviceOf } from '../device.ts'

const disks = (...disks: DeviceOf<'disks'>[]): Domain => ({ devices: { disks } })

const cached = (cache: 'unsafe' | 'none'): DeviceOf<'disks'> => ({
  target: { dev: 'vda' },
  source: { file: '/d' },
  driver: { cache },
})

testWarning('disk-cache-unsafe', [
  {
    warned: disks({ ...cached('none'), target: { dev: 'vdb' } }, cached('unsafe')),
    lines: ['devices.disks[1]: cache unsafe loses data when the node crashes'],
    silent: disks(cached('none')),
  },
])

const scsi = (controller?: DeviceOf<'controllers'>): Domain => ({
  devices: {
    disks: [{ target: { dev: 'sda', bus: 'scsi' }, source: { file: '/d' } }],
    ...(controller === undefined ? {} : { controllers: [{ type: 'scsi', index: 0, ...controller }] }),
  },
})

testWarning('scsi-model-old', [
  {
    warned: scsi({}),
    lines: ['devices.controllers[0]: few guests have a driver for lsilogic, the default; use virtio-scsi'],
    silent: scsi({ model: 'virtio-scsi' }),
  },
  {
    warned: scsi({}),
    lines: ['devices.controllers[0]: few guests have a driver for lsilogic, the default; use virtio-scsi'],
    silent: scsi({ model: 'lsilogic' }),
  },
])

const windows = (
  dev: string,
  bus: 'virtio' | 'sata',
  features: Domain['features'] = { hyperv: { relaxed: { state: true } } },
): Domain => ({
  features,
  devices: {
    disks: [
      { target: { dev: 'sdz', bus: 'sata' }, source: { file: '/d' } },
      { target: { dev, bus }, source: { file: '/d' } },
    ],
  },
})

const windowsLine = 'devices.disks[1]: Windows (features.hyperv) has no built-in driver for bus virtio'

testWarning('windows-virtio-disk', [
  { warned: windows('vda', 'virtio'), lines: [windowsLine], silent: windows('sda', 'sata') },
  { warned: windows('vda', 'virtio'), lines: [windowsLine], silent: windows('vda', 'virtio', {}) },
  {
    warned: { features: { hyperv: {} }, ...disks({ source: { file: '/d' }, target: { dev: 'vda', bus: 'virtio' } }) },
    lines: [windowsLine.replace('1', '0')],
    silent: { features: { hyperv: {} }, ...disks() },
  },
])

testWarning('volume-unused', [
  {
    warned: disks({ type: 'volume', source: { volume: 'root' }, target: { dev: 'vda' } }),
    lines: ['volume "data" is not used by any disk or file system (type: volume, source.volume)'],
    silent: disks(
      ...['root', 'data'].map((volume) => ({
        type: 'volume' as const,
        source: { volume },
        target: { dev: volume === 'root' ? 'vda' : 'vdb' },
      })),
    ),
    volumes: [
      { name: 'root', emptyDisk: { capacity: '1Gi' } },
      { name: 'data', emptyDisk: { capacity: '1Gi' } },
    ],
  },
])

const fromImage = (cache?: 'none' | 'directsync' | 'writeback'): Domain =>
  disks({
    type: 'volume',
    source: { volume: 'root' },
    target: { dev: 'vda' },
    ...(cache === undefined ? {} : { driver: { cache } }),
  })

testWarning(
  'volume-image-cache',
  (['none', 'directsync'] as const).map((cache) => ({
    volumes: [{ name: 'root', image: { reference: 'a' } }],
    warned: fromImage(cache),
    lines: [`devices.disks[0]: with cache ${cache}, each VM reads the image from the node's disk itself`],
    silent: fromImage(cache === 'none' ? 'writeback' : undefined),
  })),
)
