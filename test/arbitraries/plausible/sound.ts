import fc from 'fast-check'
import { pci } from './address.ts'
import { many, model, mostly, part, rarely, small } from './part.ts'

export const sounds = many(
  rarely(model('sounds', 'ich6', 'ich9', 'ac97', 'es1370', 'usb', 'virtio', 'sb16'), {
    address: pci,
    audio: part({ id: fc.constant(1) }),
    codecs: fc.constant([{ type: 'duplex' }]),
  }),
  2,
)

export const audios = many(
  fc.integer({ min: 0, max: 30 }).chain((one) =>
    rarely({ type: mostly('devices.audios.type', 'none', 'alsa', 'pulseaudio') }, { timerPeriod: small(10_000) }).map(
      (made) => (index: number) => ({
        id: one === 0 ? 1 : index + 1,
        ...made,
      }),
    ),
  ),
  2,
)
