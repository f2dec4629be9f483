import { describe, expect, test } from 'vitest'
import type { Domain } from '../../api/domain/domain.ts'
import { bundledCapabilities } from '../capabilities.ts'
import { applied } from '../../test/applied.ts'
import { audio } from './audio.ts'
import { graphicsListen, graphicsPort } from './graphics.ts'
import { implicitVideo, videoHeads, videoMemory, videoModel, videoPrimary } from './video.ts'

type Devices = NonNullable<Domain['devices']>
type Graphics = NonNullable<Devices['graphics']>[number]

describe('a screen', () => {
  const anywhere = { listens: [{ type: 'address' }] } as const

  test.each<[string, Graphics, object]>([
    ['on VNC is at a port that is chosen', { type: 'vnc' }, { ...anywhere, port: -1, autoport: true }],
    ['on VNC is at the port that is given', { type: 'vnc', port: 5901 }, { ...anywhere, autoport: false }],
    [
      'on VNC listens on its address',
      { type: 'vnc', listen: '0.0.0.0' },
      { listens: [{ type: 'address', address: '0.0.0.0' }], port: -1, autoport: true },
    ],
    [
      'on VNC repeats the first address',
      { type: 'vnc', port: 1, listens: [{ type: 'address', address: '::1' }] },
      { listen: '::1', autoport: false },
    ],
    ['on VNC at a socket has no port', { type: 'vnc', listens: [{ type: 'socket', socket: '/s' }] }, { socket: '/s' }],
    [
      'on VNC at a socket of the old kind',
      { type: 'vnc', socket: '/s' },
      { listens: [{ type: 'socket', socket: '/s' }] },
    ],
    ['on SPICE without a port listens nowhere', { type: 'spice' }, { listens: [{ type: 'none' }] }],
    ['on SPICE with ports to be chosen', { type: 'spice', autoport: true }, anywhere],
    ['on SPICE with a port has no other', { type: 'spice', port: 5901 }, { ...anywhere, autoport: false }],
    ['on SPICE with both ports open', { type: 'spice', port: -1, tlsPort: -1 }, { ...anywhere, autoport: true }],
    ['on SPICE on a network', { type: 'spice', listens: [{ type: 'network', network: 'n' }] }, { autoport: false }],
    ['in a window listens nowhere', { type: 'sdl' }, {}],
  ])('%s', (_, given, more) => {
    expect(applied([graphicsListen, graphicsPort], { devices: { graphics: [given] } }).devices?.graphics).toEqual([
      { ...given, ...more },
    ])
  })
})

describe('sound', () => {
  test.each<[string, string[], string | undefined]>([
    ['goes nowhere without a screen', [], 'none'],
    ['goes nowhere with VNC', ['vnc'], 'none'],
    ['goes to SPICE', ['spice'], 'spice'],
    ['follows the last display server', ['vnc', 'spice'], 'spice'],
    ['goes nowhere where VNC is the last', ['spice', 'vnc'], 'none'],
    ['is QEMU’s own matter with a window behind it', ['spice', 'sdl'], undefined],
    ['goes to SPICE, D-Bus or not', ['spice', 'dbus'], 'spice'],
    ['is QEMU’s own matter on D-Bus', ['dbus'], undefined],
  ])('%s', (_, types, expected) => {
    const graphics = types.map((type) => ({ type: type as 'vnc' }))
    const audios = applied([audio], { devices: { graphics } }).devices?.audios
    expect(audios).toEqual(expected === undefined ? undefined : [{ id: 1, type: expected }])
  })

  test('that is configured stays', () => {
    const devices: Devices = { audios: [{ id: 1, type: 'pulseaudio' }], graphics: [{ type: 'spice' }] }
    expect(applied([audio], { devices }).devices).toEqual(devices)
  })
})

describe('a graphics card', () => {
  const rules = [implicitVideo, videoModel, videoMemory, videoHeads, videoPrimary]

  test.each<[string, Devices, object[] | undefined]>([
    [
      'is there for a screen',
      { graphics: [{ type: 'vnc' }] },
      [{ model: { type: 'cirrus', vram: 16384, heads: 1, primary: true } }],
    ],
    ['is not added without a display server', {}, undefined],
    [
      'has the memory of its kind',
      { videos: [{ model: { type: 'qxl' } }, { model: { type: 'virtio' } }] },
      [
        { model: { type: 'qxl', ram: 65536, vram: 65536, vgamem: 16384, heads: 1, primary: true } },
        { model: { type: 'virtio', heads: 1 } },
      ],
    ],
    [
      'keeps what is written',
      { videos: [{ model: { type: 'vga', vram: 1024, heads: 2 } }] },
      [{ model: { type: 'vga', vram: 1024, heads: 2, primary: true } }],
    ],
    [
      'is not the first where another is',
      { videos: [{ model: { type: 'virtio' } }, { model: { type: 'vga', primary: true } }] },
      [{ model: { type: 'virtio', heads: 1 } }, { model: { type: 'vga', vram: 16384, heads: 1, primary: true } }],
    ],
    ['that is none has nothing', { videos: [{ model: { type: 'none' } }] }, [{ model: { type: 'none' } }]],
  ])('%s', (_, devices, expected) => expect(applied(rules, { devices }).devices?.videos).toEqual(expected))

  test('is a VGA where QEMU has no Cirrus', () => {
    const capabilities = {
      ...bundledCapabilities,
      devices: bundledCapabilities.devices.filter((one) => one !== 'cirrus-vga'),
    }
    expect(applied([videoModel], { devices: { videos: [{}] } }, { capabilities }).devices?.videos).toEqual([
      { model: { type: 'vga' } },
    ])
  })
})
