import { offers } from '../capabilities.ts'
import { isOn } from './reading.ts'
import { append, each, list, type DeviceOf, type Rule } from './rule.ts'

export const implicitVideo: Rule = {
  name: 'video',
  description: 'A VM with a display in `graphics` has a video card.',
  apply: (domain) => {
    const { devices } = domain
    return devices && list(domain, 'graphics').length > 0 && list(domain, 'videos').length === 0
      ? [append(devices, 'videos', {})]
      : []
  },
}

export const videoModel = each('videos')(
  'video-model',
  'The model of a video card is `cirrus` if QEMU has it, else `vga`.',
  (_, __, { capabilities }) => ({
    model: { type: offers(capabilities, 'cirrus-vga') ? 'cirrus' : offers(capabilities, 'VGA') ? 'vga' : undefined },
  }),
)

type VideoModel = NonNullable<DeviceOf<'videos'>['model']>

/** libvirt's default memory of a video card, in KiB. */
const memoryOf = (type: VideoModel['type']): Pick<VideoModel, 'ram' | 'vram' | 'vgamem'> => {
  switch (type) {
    case 'vga':
    case 'cirrus':
    case 'vmvga':
    case 'bochs':
      return { vram: 16 * 1024 }
    case 'qxl':
      return { ram: 64 * 1024, vram: 64 * 1024, vgamem: 16 * 1024 }
    default:
      return {}
  }
}

export const videoMemory = each('videos')(
  'video-memory',
  'A VGA, Cirrus, VMware or Bochs card has 16 MiB of memory; a QXL card has 64 MiB of RAM, 64 MiB of video memory and 16 MiB of VGA memory.',
  ({ model }) => ({
    model: memoryOf(model?.type),
  }),
)

export const videoHeads = each('videos')('video-heads', 'A video card has one head.', ({ model }) =>
  model?.type === 'none' ? undefined : { model: { heads: 1 } },
)

export const videoPrimary = each('videos')(
  'video-primary',
  'The first video card is the primary one, which the firmware uses, unless another is.',
  ({ model }, domain, _, index) =>
    index === 0 && model?.type !== 'none' && !list(domain, 'videos').some((one) => isOn(one.model?.primary))
      ? { model: { primary: true } }
      : undefined,
)
