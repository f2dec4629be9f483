import { list } from './device.ts'
import { forbidden } from './finding.ts'
import { example, type Rule } from './rule.ts'

export const rom: Rule = {
  id: 'rom',
  description: 'Only PCI devices have a ROM; a disabled ROM must not set other fields.',
  about: ['rom'],
  *check({ domain }) {
    for (const key of ['interfaces', 'hostdevs'] as const) {
      for (const [index, { rom: given, type }] of list(domain, key).entries()) {
        if (!given) continue
        const at = `spec.domain.devices.${key}[${index}].rom`
        if (given.enabled === false && (given.bar !== undefined || given.file !== undefined))
          yield forbidden(at, undefined, 'must not set other fields when enabled is false')
        else if (type === 'usb' || type === 'scsi')
          yield forbidden(at, undefined, `must not be set for type ${type}: only PCI devices have a ROM`)
      }
    }
  },
  example: example(
    { devices: { interfaces: [{ type: 'user', rom: { enabled: false, file: '/rom' } }] } },
    { devices: { interfaces: [{ type: 'user', rom: { bar: true, file: '/rom' } }] } },
  ),
}
