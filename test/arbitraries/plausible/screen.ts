import fc from 'fast-check'
import type { DeviceOf } from '../../../completion/defaults/rule.ts'
import { pci } from './address.ts'
import { any, many, mostly, part, rarely, weighted } from './part.ts'

export const graphics = many(
  weighted(
    [
      3,
      rarely(
        { type: fc.constant('vnc') },
        {
          port: fc.integer({ min: -1, max: 5910 }),
          autoport: fc.boolean(),
          listen: fc.constant('127.0.0.1'),
          sharePolicy: any('devices.graphics.sharePolicy'),
        },
      ),
    ],
    [
      2,
      rarely(
        { type: fc.constant('spice') },
        {
          autoport: fc.boolean(),
          port: fc.constantFrom(-1, 5901),
          tlsPort: fc.constant(-1),
          image: part({ compression: any('devices.graphics.image.compression') }),
        },
      ),
    ],
    [1, fc.constant({ type: 'egl-headless' })],
    [1, rarely({ type: mostly('devices.graphics.type', 'dbus', 'sdl') }, {})],
  ),
  2,
)

export const videos = many(
  part(
    {
      model: rarely(
        {
          type: weighted(
            [20, fc.constantFrom('vga', 'cirrus', 'virtio', 'qxl', 'bochs', 'none', 'ramfb')],
            [1, any('devices.videos.model.type')],
          ),
        },
        {
          vram: fc.constantFrom(1024, 9216, 16_384, 65_536),
          heads: fc.integer({ min: 1, max: 2 }),
          primary: fc.boolean(),
          ram: fc.constantFrom(65_536, 10_000),
          vgamem: fc.constantFrom(16_384, 8192, 5000),
          blob: fc.boolean(),
          acceleration: part({ accel3d: fc.boolean() }),
          resolution: fc.constant({ x: 1280, y: 720 }),
        },
      ),
    },
    { address: pci },
  ),
  2,
)

type Video = DeviceOf<'videos'>

/** Makes later cards of a kind that is allowed there, and keeps only the memory sizes of each kind. */
export const carefulVideo = ({ model = {}, address, ...one }: Video, index: number): Video => {
  const { type, vram, ram, vgamem, heads, acceleration, blob, resolution, primary, ...rest } = model
  const isSecond = index > 0 && type !== 'qxl' && type !== 'virtio'
  const kind = isSecond ? 'virtio' : type
  return {
    ...one,
    ...(address && kind !== 'none' && kind !== 'ramfb' ? { address } : {}),
    model: {
      ...rest,
      ...(kind === undefined ? {} : { type: kind }),
      ...(index === 0 && kind !== 'none' && primary !== undefined ? { primary } : {}),
      ...(kind === 'qxl' ? defined({ vram, ram, vgamem, heads }) : {}),
      ...(kind === 'vga' || kind === 'bochs' ? defined({ vram }) : {}),
      ...(kind === 'virtio' ? defined({ acceleration, blob, resolution, heads }) : {}),
    },
  } as Video
}

const defined = (values: object): object =>
  Object.fromEntries(Object.entries(values).filter(([, value]) => value !== undefined))
