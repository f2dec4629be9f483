import { offers } from '../capabilities.ts'
import { isOn } from './reading.ts'
import { append, each, list, type DeviceOf, type Rule } from './rule.ts'

export const implicitVideo: Rule = {
  name: 'video',
  description: 'Where the screen can be seen there is a graphics card.',
  apply: (domain) => {
    const { devices } = domain
    return devices && list(domain, 'graphics').length > 0 && list(domain, 'videos').length === 0
      ? [append(devices, 'videos', {})]
      : []
  },
}

export const videoModel = each('videos')(
  'video-model',
  'A graphics card is a Cirrus one where QEMU has it, else a standard VGA.',
  (_, __, { capabilities }) => ({
    model: { type: offers(capabilities, 'cirrus-vga') ? 'cirrus' : offers(capabilities, 'VGA') ? 'vga' : undefined },
  }),
)

type VideoModel = NonNullable<DeviceOf<'videos'>['model']>

/** In KiB: what libvirt gives a card whose memory is not stated. */
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
  'A VGA card has 16 MiB, a QXL one 64 and 64.',
  ({ model }) => ({
    model: memoryOf(model?.type),
  }),
)

export const videoHeads = each('videos')(
  'video-heads',
  'One screen can be connected to a graphics card.',
  ({ model }) => (model?.type === 'none' ? undefined : { model: { heads: 1 } }),
)

export const videoPrimary = each('videos')(
  'video-primary',
  'The first graphics card is the one that the firmware uses, if no other is.',
  ({ model }, domain, _, index) =>
    index === 0 && model?.type !== 'none' && !list(domain, 'videos').some((one) => isOn(one.model?.primary))
      ? { model: { primary: true } }
      : undefined,
)
