import type { Domain } from '../../api/domain/domain.ts'
import { testRule, testSilent } from '../../test/rule-table.ts'
import { bundledCapabilities } from '../capabilities.ts'
import type { DeviceOf } from './device.ts'

type Model = NonNullable<DeviceOf<'videos'>['model']>

const cards = (...models: Model[]): Domain => ({ devices: { videos: models.map((model) => ({ model })) } })

testRule('video-set', [
  {
    refused: cards({ type: 'vga' }, { type: 'bochs' }, { type: 'qxl', primary: true }),
    causes: [
      'spec.domain.devices.videos[0].model.type: Invalid value: "vga": is only supported for the primary graphics card; further ones must be qxl or virtio',
      'spec.domain.devices.videos[1].model.type: Invalid value: "bochs": is only supported for the primary graphics card; further ones must be qxl or virtio',
    ],
    accepted: cards({ type: 'qxl' }, { type: 'virtio' }, { type: 'qxl', primary: true }),
  },
  {
    refused: cards({ type: 'qxl' }, { type: 'none' }),
    causes: [
      'spec.domain.devices.videos[1].model.type: Invalid value: "none": must be the only item: it disables graphics cards',
    ],
    accepted: cards({ type: 'none' }),
  },
  {
    refused: cards({ type: 'qxl', primary: true }, { type: 'qxl', primary: true }),
    causes: [
      'spec.domain.devices.videos[1].model.primary: Duplicate value: true: only one graphics card can set this; videos[0] already does',
    ],
    accepted: cards({ type: 'qxl', primary: true }, { type: 'qxl' }),
  },
  {
    refused: cards({ type: 'qxl' }, { type: 'vga' }),
    causes: [
      'spec.domain.devices.videos[1].model.type: Invalid value: "vga": is only supported for the primary graphics card; further ones must be qxl or virtio',
    ],
    accepted: cards({ type: 'vga' }, { type: 'virtio' }),
  },
  {
    refused: cards({ type: 'vga' }, { type: 'virtio', primary: true }),
    causes: [
      'spec.domain.devices.videos[0].model.type: Invalid value: "vga": is only supported for the primary graphics card; further ones must be qxl or virtio',
    ],
    accepted: cards({ type: 'qxl' }, { type: 'virtio', primary: true }),
  },
])

const card = (model: Model, more: DeviceOf<'videos'> = {}): Domain => ({ devices: { videos: [{ model, ...more }] } })
const qxl = (model: Model): Domain => card({ type: 'qxl', ...model })
const virtio = (model: Model, more: DeviceOf<'videos'> = {}): Domain => card({ type: 'virtio', ...model }, more)
const memfd: Domain = { memoryBacking: { source: { type: 'memfd' }, access: { mode: 'shared' } } }

const withoutQxl = {
  ...bundledCapabilities,
  words: { ...bundledCapabilities.words, 'video.modelType': ['vga', 'none'] },
}

testRule('video-model', [
  {
    refused: card({ type: 'vga', vgamem: 513 }),
    causes: ['spec.domain.devices.videos[0].model.vgamem: Forbidden: can only be set for qxl, not for vga'],
    accepted: card({ type: 'vga', vram: 513 }),
  },
  {
    refused: card({ type: 'gop' }),
    causes: [
      'spec.domain.devices.videos[0].model.type: Unsupported value: "gop": QEMU on this node has no such graphics card; it has bochs, cirrus, none, qxl, ramfb, vga, virtio, vmvga [node without graphics card gop]',
    ],
    accepted: card({ type: 'vga' }),
  },
  {
    refused: qxl({}),
    causes: [
      'spec.domain.devices.videos[0].model.type: Unsupported value: "qxl": QEMU on this node has no such graphics card; it has vga, none [node without graphics card qxl]',
    ],
    accepted: card({ type: 'vga' }),
    capabilities: withoutQxl,
  },
  {
    refused: card({ type: 'vga', ram: 65_536, vram64: 0, vgamem: 16_384 }),
    causes: [
      'spec.domain.devices.videos[0].model.ram: Forbidden: can only be set for qxl, not for vga',
      'spec.domain.devices.videos[0].model.vram64: Forbidden: can only be set for qxl, not for vga',
      'spec.domain.devices.videos[0].model.vgamem: Forbidden: can only be set for qxl, not for vga',
    ],
    accepted: qxl({ ram: 65_536, vram64: 0, vgamem: 16_384 }),
  },
  {
    refused: qxl({ ram: 4_194_304 }),
    causes: ['spec.domain.devices.videos[0].model.ram: Invalid value: 4194304: must be at most 4194303 KiB'],
    accepted: qxl({ ram: 4_194_303 }),
  },
  {
    refused: qxl({ vram: 4_194_304 }),
    causes: ['spec.domain.devices.videos[0].model.vram: Invalid value: 4194304: must be at most 4194303 KiB'],
    accepted: qxl({ vram: 4_194_303 }),
  },
  {
    refused: qxl({ vgamem: 512 }),
    causes: ['spec.domain.devices.videos[0].model.vgamem: Invalid value: 512: must be at least 1024 KiB'],
    accepted: qxl({ vgamem: 1024 }),
  },
  {
    refused: qxl({ vgamem: 16_385 }),
    causes: ['spec.domain.devices.videos[0].model.vgamem: Invalid value: 16385: must be a power of two'],
    accepted: qxl({ vgamem: 16_384 }),
  },
  {
    refused: qxl({ blob: false }),
    causes: ['spec.domain.devices.videos[0].model.blob: Forbidden: can only be set for virtio'],
    accepted: virtio({ blob: false }),
  },
  {
    refused: virtio({ acceleration: { accel2d: true } }),
    causes: [
      'spec.domain.devices.videos[0].model.acceleration.accel2d: Unsupported value: true: is not supported by QEMU',
    ],
    accepted: virtio({ acceleration: { accel2d: false } }),
  },
  {
    refused: virtio({ acceleration: { rendernode: '/dev/dri/renderD128' } }),
    causes: [
      'spec.domain.devices.videos[0].model.acceleration.rendernode: Forbidden: can only be set with driver.name vhostuser',
    ],
    accepted: virtio({ acceleration: { rendernode: '/dev/dri/renderD128' } }, { driver: { name: 'vhostuser' } }),
  },
  {
    refused: card({ type: 'cirrus', resolution: { x: 800, y: 600 } }),
    causes: ['spec.domain.devices.videos[0].model.resolution: Forbidden: must not be set for cirrus'],
    accepted: card({ type: 'bochs', resolution: { x: 800, y: 600 } }),
  },
  {
    refused: card({ type: 'vga', resolution: { x: 0, y: 600 } }),
    causes: ['spec.domain.devices.videos[0].model.resolution.x: Invalid value: 0: must be at least 1'],
    accepted: card({ type: 'vga', resolution: { x: 1, y: 600 } }),
  },
  {
    refused: card({ type: 'vga', resolution: { x: 800, y: 0 } }),
    causes: ['spec.domain.devices.videos[0].model.resolution.y: Invalid value: 0: must be at least 1'],
    accepted: card({ type: 'vga', resolution: { x: 800, y: 1 } }),
  },
  {
    refused: card({ type: 'vga' }, { driver: { iommu: true, ats: true, packed: true, pagePerVq: true } }),
    causes: [
      'spec.domain.devices.videos[0].driver.iommu: Forbidden: can only be set for virtio, not for vga',
      'spec.domain.devices.videos[0].driver.ats: Forbidden: can only be set for virtio, not for vga',
      'spec.domain.devices.videos[0].driver.packed: Forbidden: can only be set for virtio, not for vga',
      'spec.domain.devices.videos[0].driver.pagePerVq: Forbidden: can only be set for virtio, not for vga',
    ],
    accepted: virtio({}, { driver: { iommu: true, ats: true, packed: true, pagePerVq: true } }),
  },
  {
    refused: card({ type: 'ramfb' }, { address: { type: 'pci', slot: 9 } }),
    causes: ['spec.domain.devices.videos[0].address: Forbidden: must not be set for ramfb, which is on no bus'],
    accepted: card({ type: 'ramfb' }),
  },
  {
    refused: virtio({ blob: true }),
    causes: ['spec.domain.devices.videos[0].model.blob: Invalid value: true: requires memoryBacking.source.type memfd'],
    accepted: { ...memfd, ...virtio({ blob: true }) },
  },
  {
    refused: card({ type: 'vga', heads: 2 }),
    causes: [
      'spec.domain.devices.videos[0].model.heads: Invalid value: 2: must be 1 for vga; only qxl and virtio support several screens',
    ],
    accepted: qxl({ heads: 2 }),
  },
  {
    refused: card({ type: 'vga', heads: 2 }),
    causes: [
      'spec.domain.devices.videos[0].model.heads: Invalid value: 2: must be 1 for vga; only qxl and virtio support several screens',
    ],
    accepted: virtio({ heads: 2 }),
  },
  {
    refused: qxl({ acceleration: { accel3d: true } }),
    causes: [
      'spec.domain.devices.videos[0].model.acceleration.accel3d: Invalid value: true: is only supported for virtio',
    ],
    accepted: virtio({ acceleration: { accel3d: true } }),
  },
  {
    refused: card({ type: 'vga' }, { driver: { name: 'vhostuser' } }),
    causes: ['spec.domain.devices.videos[0].driver.name: Invalid value: "vhostuser": is only supported for virtio'],
    accepted: virtio({}, { driver: { name: 'vhostuser' } }),
  },
])

testSilent('video-set', [cards({ type: 'qxl' }, { type: 'virtio' })])
testSilent('video-model', [
  card({ type: 'none', heads: 2 }),
  card({ type: 'vga', vram: 4_194_304 }),
  qxl({ vgamem: 0 }),
])
testSilent('video-model', [qxl({})], { capabilities: { ...bundledCapabilities, words: {} } })
