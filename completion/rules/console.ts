import { list } from './device.ts'
import { unsupported } from './finding.ts'
import { example, type Rule } from './rule.ts'

export const consoleSerial: Rule = {
  id: 'console-serial',
  description: 'One console alone can be a serial port.',
  about: ['consoles'],
  *check({ domain }) {
    const serial = [...list(domain, 'consoles').entries()].filter(([, { target }]) => target?.type === 'serial')
    for (const [index] of serial.slice(1)) {
      const field = `spec.domain.devices.consoles[${index}].target.type`
      yield unsupported(field, 'serial', 'is possible for one console only', 'virtio')
    }
  },
  example: example(
    { devices: { consoles: [{ type: 'pty' }, { type: 'pty', target: { type: 'serial' } }] } },
    { devices: { consoles: [{ type: 'pty' }, { type: 'pty', target: { type: 'virtio' } }] } },
  ),
}
