import { expect, test } from 'vitest'
import type { Domain } from '../../api/domain/domain.ts'
import { applied } from '../../test/applied.ts'
import { virtioSerialAddress } from './virtio-serial.ts'

test.each<[string, Domain, Domain]>([
  [
    'channels start after the port of the console',
    { devices: { controllers: [{ type: 'virtio-serial', index: 0 }], channels: [{ target: { type: 'virtio' } }] } },
    {
      devices: {
        controllers: [{ type: 'virtio-serial', index: 0 }],
        channels: [
          { target: { type: 'virtio' }, address: { type: 'virtio-serial', controller: 0, bus: 0, port: '1' } },
        ],
      },
    },
  ],
  [
    'another controller is added if one is full',
    {
      devices: {
        controllers: [{ type: 'virtio-serial', index: 0, ports: 1 }],
        channels: [{ target: { type: 'virtio' } }],
      },
    },
    {
      devices: {
        controllers: [
          { type: 'virtio-serial', index: 0, ports: 1 },
          { type: 'virtio-serial', index: 1 },
        ],
        channels: [
          { target: { type: 'virtio' }, address: { type: 'virtio-serial', controller: 1, bus: 0, port: '1' } },
        ],
      },
    },
  ],
  ['other channels have no port', { devices: { channels: [{ target: { type: 'guestfwd' } }] } }, {}],
])('%s', (_, domain, expected) => {
  expect(applied([virtioSerialAddress], domain)).toEqual({ ...domain, ...expected })
})
