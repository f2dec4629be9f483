import type { Domain } from '../../api/domain/domain.ts'
import { testRule } from '../../test/rule-table.ts'
import type { DeviceOf } from './device.ts'

const cards = (...smartcards: DeviceOf<'smartcards'>[]): Domain => ({ devices: { smartcards } })

testRule('smartcards', [
  {
    refused: cards({ mode: 'host' }, { mode: 'host' }),
    causes: ['spec.domain.devices.smartcards: Too many: 2: at most one smart card reader is supported'],
    accepted: cards({ mode: 'host' }),
  },
  {
    refused: cards({ type: 'pty' }),
    causes: ['spec.domain.devices.smartcards[0].mode: Required value: must be set'],
    accepted: cards({ mode: 'passthrough', type: 'pty' }),
  },
  {
    refused: cards({ mode: 'passthrough' }),
    causes: [
      'spec.domain.devices.smartcards[0].type: Required value: must be set for mode passthrough: how the card is connected; e.g. spicevmc',
    ],
    accepted: cards({ mode: 'passthrough', type: 'pty' }),
  },
  {
    refused: cards({ mode: 'host', address: { type: 'usb', bus: 0, port: '1' } }),
    causes: ['spec.domain.devices.smartcards[0].address.type: Invalid value: "usb": must be ccid'],
    accepted: cards({ mode: 'host', address: { type: 'ccid', controller: 0, slot: 0 } }),
  },
  {
    refused: cards({ mode: 'host', address: { type: 'ccid', controller: 1, slot: 0 } }),
    causes: [
      'spec.domain.devices.smartcards[0].address.controller: Invalid value: 1: must be 0: only one reader is supported',
    ],
    accepted: cards({ mode: 'host', address: { type: 'ccid', controller: 0, slot: 0 } }),
  },
  {
    refused: cards({ mode: 'host', address: { type: 'ccid', controller: 0, slot: 1 } }),
    causes: [
      'spec.domain.devices.smartcards[0].address.slot: Invalid value: 1: must be 0: only one reader is supported',
    ],
    accepted: cards({ mode: 'host', address: { type: 'ccid', controller: 0, slot: 0 } }),
  },
  {
    refused: cards({ mode: 'host-certificates', certificates: ['a', 'b'] }),
    causes: [
      'spec.domain.devices.smartcards[0].certificates: Invalid value: 2: must have three items for mode host-certificates',
    ],
    accepted: cards({ mode: 'host-certificates', certificates: ['a', 'b', 'c'] }),
  },
])
