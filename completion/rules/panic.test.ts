import type { Domain } from '../../api/domain/domain.ts'
import { testRule } from '../../test/rule-table.ts'
import type { DeviceOf } from './device.ts'

const panics = (...given: DeviceOf<'panics'>[]): Domain => ({ devices: { panics: given } })

testRule('panics', [
  {
    refused: panics({ model: 'isa' }, { model: 'isa' }),
    causes: [
      'spec.domain.devices.panics[1].model: Duplicate value: "isa": only one panic device of each model is supported',
    ],
    accepted: panics({ model: 'isa' }, { model: 'hyperv' }),
  },
  {
    refused: panics({ model: 'pvpanic', address: { type: 'isa', iobase: '0x505' } }),
    causes: ['spec.domain.devices.panics[0].address.type: Invalid value: "isa": is not supported for model pvpanic'],
    accepted: panics({ model: 'isa', address: { type: 'isa', iobase: '0x505' } }),
  },
  {
    refused: panics({ model: 'hyperv', address: { type: 'pci', slot: 9 } }),
    causes: ['spec.domain.devices.panics[0].address.type: Invalid value: "pci": is not supported for model hyperv'],
    accepted: panics({ model: 'pvpanic', address: { type: 'pci', slot: 9 } }),
  },
])
