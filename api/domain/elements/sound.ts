import { deviceFields } from './address.ts'
import { attribute, child, children, element } from '../description.ts'
import { integer, oneOf, uint32, yesNo } from '../scalar.ts'
import { virtioFields } from './virtio.ts'

const codec = element('A codec of an HDA sound card.', {
  type: attribute(oneOf('duplex', 'micro', 'output'), 'Line in and out, microphone and speaker, or line out only.'),
})

export const sound = element('A sound card.', {
  model: attribute(
    oneOf('sb16', 'es1370', 'pcspk', 'ac97', 'ich6', 'ich7', 'ich9', 'usb', 'virtio'),
    'The card that the guest sees.',
  ),
  multichannel: attribute(yesNo, 'Whether a USB card has more than two channels.'),
  streams: attribute(uint32, 'The number of streams of a virtio card; 2 if absent.'),
  codecs: children('codec', codec, 'The codecs of an HDA card; a duplex one if absent.', { key: [['type']] }),
  audio: child(
    element('The one of `audios` that it uses.', { id: attribute(integer({ min: 1, max: 255 }), 'Its id.') }),
    'The one of `audios` that it uses; the first if absent.',
  ),
  driver: child(element('How QEMU serves the device.', virtioFields), 'How QEMU serves it.'),
  ...deviceFields,
})
