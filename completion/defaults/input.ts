import { chipsetOf } from './machine.ts'
import { isOn } from './reading.ts'
import { append, each, list, type DeviceOf, type Rule } from './rule.ts'

export const inputBus = each('inputs')(
  'input-bus',
  'A mouse or keyboard is on PS/2, a tablet on USB, and a host device that is passed through on virtio.',
  ({ type }) => {
    if (type === 'passthrough') return { bus: 'virtio' }
    if (type === 'evdev') return undefined
    return { bus: type === 'tablet' ? 'usb' : 'ps2' }
  },
)

/** Every PC has these, unless its PS/2 controller is off. */
const always: readonly NonNullable<DeviceOf<'inputs'>['type']>[] = ['mouse', 'keyboard']

export const ps2Inputs: Rule = {
  name: 'ps2-inputs',
  description: 'Every PC has a PS/2 mouse and keyboard, unless its PS/2 controller is off.',
  apply: (domain) => {
    const { devices, features } = domain
    if (!devices || !['i440fx', 'q35', 'isapc'].includes(chipsetOf(domain))) return []
    if (isOn(features?.ps2?.state) === false) return []
    return always
      .filter((type) => !list(domain, 'inputs').some((one) => one.type === type && one.bus === 'ps2'))
      .map((type) => append(devices, 'inputs', { type, bus: 'ps2' }))
  },
}
