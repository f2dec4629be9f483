import { describe, expect, test } from 'vitest'
import type { Domain } from '../../api/domain/domain.ts'
import { bundledCapabilities } from '../capabilities.ts'
import { applied } from '../../test/applied.ts'
import { audio } from './audio.ts'
import { graphicsListen, graphicsPort, privateScreen } from './graphics.ts'
import { implicitVideo, videoHeads, videoMemory, videoModel, videoPrimary } from './video.ts'

type Devices = NonNullable<Domain['devices']>
type Graphics = NonNullable<Devices['graphics']>[number]

describe('a display', () => {
  const anywhere = { listens: [{ type: 'address' }] } as const

  test.each<[string, Graphics, object]>([
    ['on VNC gets a port at start', { type: 'vnc' }, { ...anywhere, port: -1, autoport: true }],
    ['on VNC uses a given port', { type: 'vnc', port: 5901 }, { ...anywhere, autoport: false }],
    [
      'on VNC listens on its address',
      { type: 'vnc', listen: '0.0.0.0' },
      { listens: [{ type: 'address', address: '0.0.0.0' }], port: -1, autoport: true },
    ],
    [
      'on VNC copies the first address',
      { type: 'vnc', port: 1, listens: [{ type: 'address', address: '::1' }] },
      { listen: '::1', autoport: false },
    ],
    ['on VNC at a socket has no port', { type: 'vnc', listens: [{ type: 'socket', socket: '/s' }] }, { socket: '/s' }],
    [
      'on VNC at a socket in the older syntax',
      { type: 'vnc', socket: '/s' },
      { listens: [{ type: 'socket', socket: '/s' }] },
    ],
    ['on SPICE without a port listens nowhere', { type: 'spice' }, { listens: [{ type: 'none' }] }],
    ['on SPICE with autoport', { type: 'spice', autoport: true }, anywhere],
    ['on SPICE with a port has no other', { type: 'spice', port: 5901 }, { ...anywhere, autoport: false }],
    ['on SPICE with both ports open', { type: 'spice', port: -1, tlsPort: -1 }, { ...anywhere, autoport: true }],
    ['on SPICE on a network', { type: 'spice', listens: [{ type: 'network', network: 'n' }] }, { autoport: false }],
    ['of SDL listens nowhere', { type: 'sdl' }, {}],
  ])('%s', (_, given, more) => {
    expect(applied([graphicsListen, graphicsPort], { devices: { graphics: [given] } }).devices?.graphics).toEqual([
      { ...given, ...more },
    ])
  })
})

describe('a VNC screen of virtset', () => {
  const rules = [privateScreen, graphicsListen, graphicsPort]
  const complete = (one: Graphics, isOurs = true) =>
    applied(rules, { devices: { graphics: [one] } }, { isOurs }).devices?.graphics?.[0]

  test('listens on a unix socket, and lets several viewers in', () => {
    expect(complete({ type: 'vnc' })).toEqual({ type: 'vnc', sharePolicy: 'ignore', listens: [{ type: 'socket' }] })
    expect(complete({ type: 'vnc', sharePolicy: 'force-shared' })).toMatchObject({ sharePolicy: 'force-shared' })
  })

  test.each<Graphics>([
    { type: 'vnc', port: 5901 },
    { type: 'vnc', autoport: true },
    { type: 'vnc', listen: '127.0.0.1' },
    { type: 'vnc', websocket: 5700 },
    { type: 'vnc', socket: '/s' },
    { type: 'vnc', listens: [{ type: 'none' }] },
    { type: 'spice' },
  ])('is not the default of %j', (one) => expect(complete(one)).toEqual(complete(one, false)))

  test('is not libvirt’s default', () => {
    expect(complete({ type: 'vnc' }, false)).toMatchObject({ listens: [{ type: 'address' }], autoport: true })
  })
})

describe('sound', () => {
  test.each<[string, string[], string | undefined]>([
    ['goes nowhere without a display', [], 'none'],
    ['goes nowhere with VNC', ['vnc'], 'none'],
    ['goes to SPICE', ['spice'], 'spice'],
    ['follows the last display server', ['vnc', 'spice'], 'spice'],
    ['goes nowhere if VNC is last', ['spice', 'vnc'], 'none'],
    ['is left to QEMU if SDL is last', ['spice', 'sdl'], undefined],
    ['goes to SPICE, D-Bus or not', ['spice', 'dbus'], 'spice'],
    ['is left to QEMU on D-Bus', ['dbus'], undefined],
  ])('%s', (_, types, expected) => {
    const graphics = types.map((type) => ({ type: type as 'vnc' }))
    const audios = applied([audio], { devices: { graphics } }).devices?.audios
    expect(audios).toEqual(expected === undefined ? undefined : [{ id: 1, type: expected }])
  })

  test('remains as configured', () => {
    const devices: Devices = { audios: [{ id: 1, type: 'pulseaudio' }], graphics: [{ type: 'spice' }] }
    expect(applied([audio], { devices }).devices).toEqual(devices)
  })
})

describe('a video card', () => {
  const rules = [implicitVideo, videoModel, videoMemory, videoHeads, videoPrimary]

  test.each<[string, Devices, object[] | undefined]>([
    [
      'is added for a display',
      { graphics: [{ type: 'vnc' }] },
      [{ model: { type: 'cirrus', vram: 16384, heads: 1, primary: true } }],
    ],
    ['is not added without a display server', {}, undefined],
    [
      'has the memory of its model',
      { videos: [{ model: { type: 'qxl' } }, { model: { type: 'virtio' } }] },
      [
        { model: { type: 'qxl', ram: 65536, vram: 65536, vgamem: 16384, heads: 1, primary: true } },
        { model: { type: 'virtio', heads: 1 } },
      ],
    ],
    [
      'retains existing values',
      { videos: [{ model: { type: 'vga', vram: 1024, heads: 2 } }] },
      [{ model: { type: 'vga', vram: 1024, heads: 2, primary: true } }],
    ],
    [
      'is not primary if another is',
      { videos: [{ model: { type: 'virtio' } }, { model: { type: 'vga', primary: true } }] },
      [{ model: { type: 'virtio', heads: 1 } }, { model: { type: 'vga', vram: 16384, heads: 1, primary: true } }],
    ],
    ['of model none has nothing', { videos: [{ model: { type: 'none' } }] }, [{ model: { type: 'none' } }]],
  ])('%s', (_, devices, expected) => expect(applied(rules, { devices }).devices?.videos).toEqual(expected))

  test('is a VGA if QEMU has no Cirrus', () => {
    const capabilities = {
      ...bundledCapabilities,
      devices: bundledCapabilities.devices.filter((one) => one !== 'cirrus-vga'),
    }
    expect(applied([videoModel], { devices: { videos: [{}] } }, { capabilities }).devices?.videos).toEqual([
      { model: { type: 'vga' } },
    ])
  })
})
