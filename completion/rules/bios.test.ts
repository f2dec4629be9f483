import type { Domain } from '../../api/domain/domain.ts'
import { testRule } from '../../test/rule-table.ts'

const bios = (useserial: boolean): Domain => ({ os: { type: { os: 'hvm' }, bios: { useserial } } })

testRule('bios-serial', [
  {
    refused: bios(true),
    causes: ['spec.domain.devices.serials: Required value: must have a port when os.bios.useserial is set; type: pty'],
    accepted: bios(false),
  },
  {
    refused: bios(true),
    causes: ['spec.domain.devices.serials: Required value: must have a port when os.bios.useserial is set; type: pty'],
    accepted: { ...bios(true), devices: { serials: [{ type: 'pty' }] } },
  },
])
