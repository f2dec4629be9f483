import type { Domain } from '../../api/domain/domain.ts'
import { testRule, testSilent } from '../../test/rule-table.ts'
import type { DeviceOf } from './device.ts'

const watchdogs = (machine: string, ...given: DeviceOf<'watchdogs'>[]): Domain => ({
  os: { type: { os: 'hvm', machine } },
  devices: { watchdogs: given },
})

testRule('watchdog-machine', [
  {
    refused: watchdogs('q35', { model: 'ib700' }),
    causes: [
      'spec.domain.devices.watchdogs[0].model: Unsupported value: "ib700": is only supported on machine type pc; use i6300esb or itco',
    ],
    accepted: watchdogs('pc', { model: 'ib700' }),
  },
])

testRule('watchdogs', [
  {
    refused: watchdogs('pc', { model: 'ib700' }, { model: 'ib700' }),
    causes: [
      'spec.domain.devices.watchdogs[1].model: Duplicate value: "ib700": only one watchdog of this model is supported',
    ],
    accepted: watchdogs('pc', { model: 'ib700' }, { model: 'i6300esb' }),
  },
  {
    refused: watchdogs('q35', { model: 'itco' }, { model: 'itco' }),
    causes: [
      'spec.domain.devices.watchdogs[1].model: Duplicate value: "itco": only one watchdog of this model is supported',
    ],
    accepted: watchdogs('q35', { model: 'itco' }, { model: 'i6300esb' }, { model: 'i6300esb' }),
  },
  {
    refused: watchdogs('pc', { model: 'itco' }),
    causes: ['spec.domain.devices.watchdogs[0].model: Invalid value: "itco": is only supported on machine type q35'],
    accepted: watchdogs('q35', { model: 'itco' }),
  },
  {
    refused: watchdogs('pc', { model: 'i6300esb', address: { type: 'isa' } }),
    causes: ['spec.domain.devices.watchdogs[0].address.type: Invalid value: "isa": must be pci for model i6300esb'],
    accepted: watchdogs('pc', { model: 'i6300esb', address: { type: 'pci', slot: 9 } }),
  },
  {
    refused: watchdogs('pc', { model: 'ib700', address: { type: 'isa' } }),
    causes: [
      'spec.domain.devices.watchdogs[0].address: Forbidden: must not be set for model ib700, which is on no bus',
    ],
    accepted: watchdogs('pc', { model: 'ib700' }),
  },
  {
    refused: watchdogs('pc', { model: 'i6300esb', action: 'reset' }, { model: 'ib700', action: 'none' }),
    causes: [
      'spec.domain.devices.watchdogs[1].action: Invalid value: "none": must be reset, like the action of the first watchdog',
    ],
    accepted: watchdogs('pc', { model: 'i6300esb', action: 'reset' }, { model: 'ib700', action: 'reset' }),
  },
])

testSilent('watchdogs', [
  watchdogs('pc', { action: 'reset' }, { action: 'reset' }),
  watchdogs('isapc', { model: 'i6300esb' }),
])
