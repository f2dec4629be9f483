import { list } from './device.ts'
import { required } from './finding.ts'
import { example, type Rule } from './rule.ts'

export const biosSerial: Rule = {
  id: 'bios-serial',
  description: '`os.bios.useserial` requires a serial port.',
  about: ['useserial'],
  *check({ domain }) {
    if (domain.os?.bios?.useserial !== true || list(domain, 'serials').length > 0) return
    yield required('spec.domain.devices.serials', 'must have a port when os.bios.useserial is set', 'type: pty')
  },
  example: example(
    { os: { type: { os: 'hvm' }, bios: { useserial: true } } },
    { os: { type: { os: 'hvm' }, bios: { useserial: true } }, devices: { serials: [{ type: 'pty' }] } },
  ),
}
