import { expect, test } from 'vitest'
import type { Domain } from '../../api/domain/domain.ts'
import { applied } from '../../test/applied.ts'
import { audio } from './audio.ts'

test.each<[string, Domain, Domain]>([
  ['goes nowhere', { devices: {} }, { devices: { audios: [{ id: 1, type: 'none' }] } }],
  [
    'goes to SPICE',
    { devices: { graphics: [{ type: 'spice' }] } },
    { devices: { graphics: [{ type: 'spice' }], audios: [{ id: 1, type: 'spice' }] } },
  ],
  [
    'goes nowhere if VNC is the last display',
    { devices: { graphics: [{ type: 'spice' }, { type: 'vnc' }] } },
    { devices: { graphics: [{ type: 'spice' }, { type: 'vnc' }], audios: [{ id: 1, type: 'none' }] } },
  ],
  ['is left to QEMU for SDL', { devices: { graphics: [{ type: 'sdl' }] } }, {}],
  ['remains as configured', { devices: { audios: [{ id: 1, type: 'alsa' }] } }, {}],
])('%s', (_, domain, expected) => {
  expect(applied([audio], domain)).toEqual({ ...domain, ...expected })
})
