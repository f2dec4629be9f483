import { deviceFields } from './address.ts'
import { attribute, child, element } from '../description.ts'
import { oneOf, onOff, path } from '../scalar.ts'
import { virtioFields, virtioModel } from './virtio.ts'

const host = { reach: 'host' } as const

const source = element('The input device of the node.', {
  dev: attribute(path, 'Its device file, with `evdev`.', host),
  evdev: attribute(path, 'Its device file, with `passthrough`.', host),
  repeat: attribute(onOff, 'Whether held keys repeat.', host),
  grab: attribute(oneOf('all'), 'Whether grabbing one device of the node grabs all of them.', host),
  grabToggle: attribute(
    oneOf('ctrl-ctrl', 'alt-alt', 'shift-shift', 'meta-meta', 'scrolllock', 'ctrl-scrolllock'),
    'The keys that toggle the grab.',
    host,
  ),
})

export const input = element('A mouse, tablet or keyboard.', {
  type: attribute(
    oneOf('mouse', 'tablet', 'keyboard', 'passthrough', 'evdev'),
    'The kind of device; the last two are devices of the node.',
    { reachOf: { passthrough: 'host', evdev: 'host' } },
  ),
  bus: attribute(oneOf('ps2', 'usb', 'virtio'), 'The bus; the machine decides if absent.'),
  model: virtioModel,
  driver: child(element('How QEMU serves the device.', virtioFields), 'How QEMU serves it.'),
  source: child(source, 'The input device of the node.'),
  ...deviceFields,
})
