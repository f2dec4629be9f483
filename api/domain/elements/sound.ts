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
  streams: attribute(uint32, 'How many streams a virtio card has; 2 when absent.'),
  codecs: children('codec', codec, 'The codecs of an HDA card; a duplex one when absent.', { key: [['type']] }),
  audio: child(
    element('Which of `audios` plays it.', { id: attribute(integer({ min: 1, max: 255 }), 'Its id.') }),
    'Which of `audios` plays it; the first when absent.',
  ),
  driver: child(element('How QEMU serves the device.', virtioFields), 'How QEMU serves it.'),
  ...deviceFields,
})
