import type { Domain } from '../../api/domain/domain.ts'
import { testRule } from '../../test/rule-table.ts'
import { bundledCapabilities } from '../capabilities.ts'
import type { DeviceOf } from './device.ts'

type Graphics = DeviceOf<'graphics'>
type Listen = NonNullable<Graphics['listens']>[number]

const graphics = (...graphics: Graphics[]): Domain => ({ devices: { graphics } })

const capabilities = { ...bundledCapabilities, words: { ...bundledCapabilities.words, 'graphics.type': ['vnc'] } }

testRule('graphics-type', [
  {
    refused: graphics({}),
    causes: ['spec.domain.devices.graphics[0].type: Required value: must be set; e.g. vnc'],
    accepted: graphics({ type: 'vnc' }),
  },
  {
    refused: graphics({ type: 'vnc' }, { type: 'vnc' }),
    causes: [
      'spec.domain.devices.graphics[1].type: Duplicate value: "vnc": is already the type of graphics[0]; only one of each type is allowed',
    ],
    accepted: graphics({ type: 'vnc' }, { type: 'spice' }),
  },
  {
    refused: graphics({ type: 'vnc' }, {}, { type: 'vnc' }),
    causes: [
      'spec.domain.devices.graphics[1].type: Required value: must be set; e.g. vnc',
      'spec.domain.devices.graphics[2].type: Duplicate value: "vnc": is already the type of graphics[0]; only one of each type is allowed',
    ],
    accepted: graphics({ type: 'vnc' }),
  },
  {
    refused: graphics({ type: 'desktop' }),
    causes: ['spec.domain.devices.graphics[0].type: Unsupported value: "desktop": is not supported by QEMU'],
    accepted: graphics({ type: 'sdl' }),
    capabilities: { ...capabilities, words: {} },
  },
  {
    refused: graphics({ type: 'spice' }),
    causes: [
      'spec.domain.devices.graphics[0].type: Unsupported value: "spice": QEMU on this node has no such display server; it has vnc [node without display server spice]',
    ],
    accepted: graphics({ type: 'vnc' }),
    capabilities,
  },
  {
    refused: graphics({ type: 'spice', gl: { enable: true } }, { type: 'egl-headless' }),
    causes: [
      'spec.domain.devices.graphics[1].type: Invalid value: "egl-headless": only one display server can use OpenGL; graphics[0] already does',
    ],
    accepted: graphics({ type: 'spice', gl: { enable: false } }, { type: 'egl-headless' }),
  },
  {
    refused: graphics(
      { type: 'spice', gl: { enable: true } },
      { type: 'egl-headless' },
      { type: 'sdl', gl: { enable: true } },
    ),
    causes: [
      'spec.domain.devices.graphics[1].type: Invalid value: "egl-headless": only one display server can use OpenGL; graphics[0] already does',
      'spec.domain.devices.graphics[2].type: Invalid value: "sdl": only one display server can use OpenGL; graphics[0] already does',
    ],
    accepted: graphics({ type: 'spice', gl: { enable: true } }, { type: 'vnc' }),
  },
  {
    refused: graphics({ type: 'sdl' }, { type: 'egl-headless' }),
    causes: [
      'spec.domain.devices.graphics[1].type: Invalid value: "egl-headless": requires a display server of type vnc or spice',
    ],
    accepted: graphics({ type: 'vnc' }, { type: 'egl-headless' }),
  },
  {
    refused: graphics({ type: 'sdl' }, { type: 'egl-headless' }),
    causes: [
      'spec.domain.devices.graphics[1].type: Invalid value: "egl-headless": requires a display server of type vnc or spice',
    ],
    accepted: graphics({ type: 'egl-headless' }),
  },
])

const listening = (type: Graphics['type'], listens: Listen[], more: Graphics = {}): Domain =>
  graphics({ ...(type === undefined ? {} : { type }), listens, ...more })

testRule('graphics-listen', [
  {
    refused: graphics({ type: 'spice', autoport: false, port: -1, tlsPort: -1 }),
    causes: [
      'spec.domain.devices.graphics[0].autoport: Invalid value: false: must be true: with port and tlsPort -1, both are chosen at start',
    ],
    accepted: graphics({ type: 'spice', autoport: true, port: -1, tlsPort: -1 }),
  },
  {
    refused: graphics({ type: 'spice', autoport: false, port: -1, tlsPort: -1 }),
    causes: [
      'spec.domain.devices.graphics[0].autoport: Invalid value: false: must be true: with port and tlsPort -1, both are chosen at start',
    ],
    accepted: graphics({ type: 'spice', autoport: false, port: 5900, tlsPort: -1 }),
  },
  {
    refused: graphics({ type: 'spice', autoport: false, port: -1, tlsPort: -1 }),
    causes: [
      'spec.domain.devices.graphics[0].autoport: Invalid value: false: must be true: with port and tlsPort -1, both are chosen at start',
    ],
    accepted: graphics({ type: 'spice', autoport: false, port: -1, tlsPort: 5901 }),
  },
  {
    refused: graphics({ type: 'spice', autoport: false, port: -1, tlsPort: -1 }),
    causes: [
      'spec.domain.devices.graphics[0].autoport: Invalid value: false: must be true: with port and tlsPort -1, both are chosen at start',
    ],
    accepted: graphics({ type: 'vnc', autoport: false, port: -1 }),
  },
  {
    refused: graphics({ type: 'vnc', passwd: '9 charact' }),
    causes: ['spec.domain.devices.graphics[0].passwd: Too long: must be at most 8 characters, the limit of VNC'],
    accepted: graphics({ type: 'vnc', passwd: '8 charac' }),
  },
  {
    refused: graphics({ type: 'vnc', passwd: '9 charact' }),
    causes: ['spec.domain.devices.graphics[0].passwd: Too long: must be at most 8 characters, the limit of VNC'],
    accepted: graphics({ type: 'spice', passwd: '9 charact' }),
  },
  {
    refused: listening('vnc', [
      { type: 'address', address: '127.0.0.1' },
      { type: 'address', address: '::1' },
    ]),
    causes: ['spec.domain.devices.graphics[0].listens: Forbidden: must have one entry: QEMU listens on one place'],
    accepted: listening('vnc', [{ type: 'address', address: '127.0.0.1' }]),
  },
  {
    refused: listening('rdp', [{ type: 'socket', socket: '/s' }]),
    causes: ['spec.domain.devices.graphics[0].listens[0].type: Invalid value: "socket": is not supported for type rdp'],
    accepted: listening('vnc', [{ type: 'socket', socket: '/s' }]),
  },
  {
    refused: listening('rdp', [{ type: 'none' }]),
    causes: ['spec.domain.devices.graphics[0].listens[0].type: Invalid value: "none": is not supported for type rdp'],
    accepted: listening('spice', [{ type: 'none' }]),
  },
  {
    refused: listening('sdl', [{ type: 'none' }]),
    causes: ['spec.domain.devices.graphics[0].listens[0].type: Invalid value: "none": is not supported for type sdl'],
    accepted: listening('spice', [{ type: 'socket', socket: '/s' }]),
  },
  {
    refused: listening('vnc', [{ type: 'address', network: 'n' }]),
    causes: ['spec.domain.devices.graphics[0].listens[0].network: Forbidden: can only be set for type network'],
    accepted: listening('vnc', [{ type: 'network', network: 'n' }]),
  },
  {
    refused: listening('vnc', [{ type: 'network' }]),
    causes: ['spec.domain.devices.graphics[0].listens[0].network: Required value: must be set for type network'],
    accepted: listening('vnc', [{ type: 'address' }]),
  },
  {
    refused: listening('vnc', [{ type: 'socket', socket: '/s' }], { socket: '/t' }),
    causes: ['spec.domain.devices.graphics[0].socket: Invalid value: "/t": must be /s, like listens[0].socket'],
    accepted: listening('vnc', [{ type: 'socket', socket: '/s' }], { socket: '/s' }),
  },
  {
    refused: listening('vnc', [{ type: 'address', address: '127.0.0.1' }], { listen: '::1' }),
    causes: [
      'spec.domain.devices.graphics[0].listen: Invalid value: "::1": must be 127.0.0.1, like listens[0].address',
    ],
    accepted: listening('vnc', [{ type: 'address', address: '127.0.0.1' }], { listen: '127.0.0.1' }),
  },
])

testRule('graphics-fields', [
  {
    refused: graphics({ type: 'vnc', tlsPort: 5901 }),
    causes: ['spec.domain.devices.graphics[0].tlsPort: Forbidden: must not be set for type vnc'],
    accepted: graphics({ type: 'spice', tlsPort: 5901 }),
  },
  {
    refused: graphics({ type: 'spice', websocket: 5700, sharePolicy: 'ignore' }),
    causes: [
      'spec.domain.devices.graphics[0].websocket: Forbidden: must not be set for type spice',
      'spec.domain.devices.graphics[0].sharePolicy: Forbidden: must not be set for type spice',
    ],
    accepted: graphics({ type: 'vnc', websocket: 5700, sharePolicy: 'ignore' }),
  },
  {
    refused: graphics({ type: 'egl-headless', port: 5900, username: 'me' }),
    causes: [
      'spec.domain.devices.graphics[0].port: Forbidden: must not be set for type egl-headless',
      'spec.domain.devices.graphics[0].username: Forbidden: must not be set for type egl-headless',
    ],
    accepted: graphics({ type: 'egl-headless' }),
  },
  {
    refused: graphics({ type: 'vnc', display: ':0' }),
    causes: ['spec.domain.devices.graphics[0].display: Forbidden: must not be set for type vnc'],
    accepted: graphics({ type: 'sdl', display: ':0', xauth: '/x' }),
  },
  {
    refused: graphics({ type: 'sdl', gl: {} }),
    causes: ['spec.domain.devices.graphics[0].gl.enable: Required value: must be set'],
    accepted: graphics({ type: 'sdl', gl: { enable: false } }),
  },
  {
    refused: graphics({ type: 'spice', gl: {} }),
    causes: ['spec.domain.devices.graphics[0].gl.enable: Required value: must be set'],
    accepted: graphics({ type: 'egl-headless', gl: {} }),
  },
  {
    refused: graphics({ type: 'vnc', gl: {} }),
    causes: ['spec.domain.devices.graphics[0].gl: Forbidden: must not be set for type vnc'],
    accepted: graphics({ type: 'vnc' }),
  },
  {
    refused: graphics({ type: 'dbus', p2p: true, address: 'unix:path=/s' }),
    causes: ['spec.domain.devices.graphics[0].address: Forbidden: must not be set when p2p is true'],
    accepted: graphics({ type: 'dbus', p2p: false, address: 'unix:path=/s' }),
  },
  {
    refused: graphics({ type: 'dbus', p2p: true, address: 'unix:path=/s' }),
    causes: ['spec.domain.devices.graphics[0].address: Forbidden: must not be set when p2p is true'],
    accepted: graphics({ type: 'dbus', p2p: true }),
  },
  {
    refused: {
      devices: {
        graphics: [{ type: 'dbus', audio: { id: 1 } }],
        audios: [
          { id: 2, type: 'dbus' },
          { id: 1, type: 'none' },
        ],
      },
    },
    causes: [
      'spec.domain.devices.graphics[0].audio.id: Invalid value: 1: must be an audio backend of type dbus, not none',
    ],
    accepted: {
      devices: {
        graphics: [{ type: 'dbus', audio: { id: 1 } }],
        audios: [
          { id: 2, type: 'none' },
          { id: 1, type: 'dbus' },
        ],
      },
    },
  },
  {
    refused: { devices: { graphics: [{ type: 'dbus', audio: { id: 1 } }], audios: [{ id: 1, type: 'none' }] } },
    causes: [
      'spec.domain.devices.graphics[0].audio.id: Invalid value: 1: must be an audio backend of type dbus, not none',
    ],
    accepted: { devices: { graphics: [{ type: 'vnc', audio: { id: 1 } }], audios: [{ id: 1, type: 'none' }] } },
  },
])
