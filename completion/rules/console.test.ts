import type { Domain } from '../../api/domain/domain.ts'
import { testRule, testSilent } from '../../test/rule-table.ts'

const consoles = (...types: ('serial' | 'virtio' | undefined)[]): Domain => ({
  devices: { consoles: types.map((type) => ({ type: 'pty', ...(type === undefined ? {} : { target: { type } }) })) },
})

const withPort = (...types: ('serial' | 'virtio')[]): Domain => ({
  devices: { consoles: types.map((type) => ({ type: 'pty', target: { type, port: 0 } })) },
})

testSilent('console-serial', [
  { devices: { serials: [{ type: 'pty' }], consoles: [{ type: 'pty', target: { type: 'virtio' } }] } },
])

testRule('console-serial', [
  {
    refused: consoles('serial', 'serial', 'virtio', 'serial'),
    causes: [
      'spec.domain.devices.consoles[1].target.type: Unsupported value: "serial": is only supported for the first console; virtio',
      'spec.domain.devices.consoles[3].target.type: Unsupported value: "serial": is only supported for the first console; virtio',
    ],
    accepted: consoles('serial', 'virtio', 'virtio'),
  },
  {
    refused: consoles(undefined, 'serial'),
    causes: [
      'spec.domain.devices.consoles[1].target.type: Unsupported value: "serial": is only supported for the first console; virtio',
    ],
    accepted: consoles(undefined, 'virtio'),
  },
  {
    refused: consoles('virtio', 'serial', 'virtio'),
    causes: [
      'spec.domain.devices.consoles[1].target.type: Unsupported value: "serial": is only supported for the first console; virtio',
    ],
    accepted: consoles('serial', 'virtio', 'virtio'),
  },
  {
    refused: consoles('virtio', 'serial', 'serial'),
    causes: [
      'spec.domain.devices.consoles[1].target.type: Unsupported value: "serial": is only supported for the first console; virtio',
      'spec.domain.devices.consoles[2].target.type: Unsupported value: "serial": is only supported for the first console; virtio',
    ],
    accepted: consoles('virtio', 'virtio'),
  },
  {
    refused: consoles('virtio', 'serial', 'virtio'),
    causes: [
      'spec.domain.devices.consoles[1].target.type: Unsupported value: "serial": is only supported for the first console; virtio',
    ],
    accepted: { devices: { serials: [{ type: 'pty' }], consoles: [{ type: 'pty', target: { type: 'virtio' } }] } },
  },
  {
    refused: consoles('virtio', 'serial'),
    causes: [
      'spec.domain.devices.consoles[1].target.type: Unsupported value: "serial": is only supported for the first console; virtio',
    ],
    accepted: withPort('virtio', 'serial'),
  },
  {
    refused: withPort('serial', 'serial'),
    causes: [
      'spec.domain.devices.consoles[1].target.type: Unsupported value: "serial": is only supported for the first console; virtio',
    ],
    accepted: withPort('serial', 'virtio'),
  },
  {
    refused: withPort('virtio', 'serial', 'virtio'),
    causes: [
      'spec.domain.devices.consoles[1].target.type: Unsupported value: "serial": is only supported for the first console; virtio',
    ],
    accepted: withPort('virtio', 'virtio', 'serial'),
  },
])
