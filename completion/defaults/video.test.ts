import { expect, test } from 'vitest'
import type { Domain } from '../../api/domain/domain.ts'
import { applied } from '../../test/applied.ts'
import { implicitVideo, videoHeads, videoMemory, videoModel, videoPrimary } from './video.ts'

test.each<[string, Domain, Domain]>([
  ['is not added without a display server', { devices: {} }, {}],
  [
    'a display has a video card',
    { devices: { graphics: [{ type: 'vnc' }] } },
    {
      devices: {
        graphics: [{ type: 'vnc' }],
        videos: [{ model: { type: 'cirrus', vram: 16384, heads: 1, primary: true } }],
      },
    },
  ],
  [
    'QXL has three kinds of memory',
    { devices: { videos: [{ model: { type: 'qxl' } }] } },
    {
      devices: {
        videos: [{ model: { type: 'qxl', ram: 65536, vram: 65536, vgamem: 16384, heads: 1, primary: true } }],
      },
    },
  ],
  ['model none has nothing', { devices: { videos: [{ model: { type: 'none' } }] } }, {}],
  [
    'the primary one remains primary',
    { devices: { videos: [{ model: { type: 'virtio' } }, { model: { type: 'virtio', primary: true } }] } },
    {
      devices: {
        videos: [{ model: { type: 'virtio', heads: 1 } }, { model: { type: 'virtio', primary: true, heads: 1 } }],
      },
    },
  ],
])('%s', (_, domain, expected) => {
  expect(applied([implicitVideo, videoModel, videoMemory, videoHeads, videoPrimary], domain)).toEqual({
    ...domain,
    ...expected,
  })
})
