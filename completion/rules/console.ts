import { list } from './device.ts'
import { unsupported } from './finding.ts'
import { example, type Rule } from './rule.ts'

export const consoleSerial: Rule = {
  id: 'console-serial',
  description: 'Only the first console can be a serial port.',
  about: ['consoles'],
  *check({ domain, originOf }) {
    const consoles = list(domain, 'consoles')
    for (const [index, { target }] of consoles.entries()) {
      if (index === 0 || target?.type !== 'serial') continue
      const at = `spec.domain.devices.consoles[${index}].target`
      const isDefault = (key: 'type' | 'port'): boolean => originOf(`${at}.${key}`).by === 'default'
      // Completion appends the console of the first serial port, with a port; the launcher writes it first.
      const isOnly = consoles.findIndex((one) => one.target?.type === 'serial') === index
      if ((isDefault('type') || !isDefault('port')) && isOnly && index === consoles.length - 1) continue
      yield unsupported(`${at}.type`, 'serial', 'is only supported for the first console', 'virtio')
    }
  },
  example: example(
    { devices: { consoles: [{ type: 'pty' }, { type: 'pty', target: { type: 'serial' } }] } },
    { devices: { consoles: [{ type: 'pty' }, { type: 'pty', target: { type: 'virtio' } }] } },
  ),
}
