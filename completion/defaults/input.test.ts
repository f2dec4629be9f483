import { expect, test } from 'vitest'
import type { Domain } from '../../api/domain/domain.ts'
import { applied, i440fx, q35 } from '../../test/applied.ts'
import { inputBus, ps2Inputs } from './input.ts'

test.each<[string, Domain, Domain]>([
  [
    'a PC has a mouse and a keyboard',
    { os: q35, devices: {} },
    {
      devices: {
        inputs: [
          { type: 'mouse', bus: 'ps2' },
          { type: 'keyboard', bus: 'ps2' },
        ],
      },
    },
  ],
  ['a PC without a PS/2 controller has none', { os: q35, devices: {}, features: { ps2: { state: false } } }, {}],
  [
    'an existing one on PS/2 is not duplicated',
    { os: i440fx, devices: { inputs: [{ type: 'mouse', bus: 'ps2' }] } },
    {
      devices: {
        inputs: [
          { type: 'mouse', bus: 'ps2' },
          { type: 'keyboard', bus: 'ps2' },
        ],
      },
    },
  ],
  [
    'a tablet is on USB',
    { devices: { inputs: [{ type: 'tablet' }] } },
    { devices: { inputs: [{ type: 'tablet', bus: 'usb' }] } },
  ],
  [
    'a passed-through device is on virtio, evdev on no bus',
    { devices: { inputs: [{ type: 'passthrough' }, { type: 'evdev' }] } },
    { devices: { inputs: [{ type: 'passthrough', bus: 'virtio' }, { type: 'evdev' }] } },
  ],
])('%s', (_, domain, expected) => {
  expect(applied([ps2Inputs, inputBus], domain)).toEqual({ ...domain, ...expected })
})
