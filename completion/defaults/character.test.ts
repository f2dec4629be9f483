import { describe, expect, test } from 'vitest'
import type { Domain } from '../../api/domain/domain.ts'
import { applied } from '../../test/applied.ts'
import * as character from './character.ts'

type Devices = NonNullable<Domain['devices']>
const devicesOf = (rules: Parameters<typeof applied>[0], devices: Devices): Domain['devices'] =>
  applied(rules, { devices }).devices

describe('serial ports', () => {
  const ports = (serials: Devices['serials'] & object): unknown[] =>
    devicesOf([character.serialPort], { serials })?.serials?.map(({ target }) => target?.port) ?? []

  const isa = (port?: number) => ({ target: { type: 'isa-serial' as const, ...(port === undefined ? {} : { port }) } })

  test.each<[string, Devices['serials'] & object, unknown[]]>([
    ['are numbered from 0', [{}, {}, {}], [0, 1, 2]],
    ['follow the highest number in use, even of a later port', [{}, { target: { port: 3 } }], [4, 3]],
    ['leave gaps', [{ target: { port: 2 } }, {}, { target: { port: 0 } }], [2, 3, 0]],
    ['on the ISA bus are numbered separately', [{}, isa(), { target: { port: 3 } }, isa()], [4, 0, 3, 1]],
    ['on the ISA bus fill gaps', [isa(), isa(0), {}, isa(), isa(2)], [1, 0, 4, 3, 2]],
    ['may have a number as text', [{ target: { port: '1' } }, {}], ['1', 2]],
  ])('%s', (_, serials, expected) => expect(ports(serials)).toEqual(expected))

  test('parallel ports follow the preceding ones', () => {
    expect(devicesOf([character.serialPort], { parallels: [{}, { target: { port: 1 } }, {}] })?.parallels).toEqual([
      { target: { port: 0 } },
      { target: { port: 1 } },
      { target: { port: 2 } },
    ])
  })

  test.each<[string, NonNullable<Devices['serials']>[number], object]>([
    ['is on ISA', {}, { type: 'isa-serial', model: { name: 'isa-serial' } }],
    [
      'is on ISA regardless of its address',
      { address: { type: 'pci' } },
      { type: 'isa-serial', model: { name: 'isa-serial' } },
    ],
    [
      'for debugging has its own model',
      { target: { type: 'isa-debug' } },
      { type: 'isa-debug', model: { name: 'isa-debugcon' } },
    ],
  ])('one %s', (_, serial, target) => {
    expect(devicesOf([character.serialTarget], { serials: [serial] })?.serials).toEqual([{ ...serial, target }])
  })
})

describe('the serial console', () => {
  const rules = [
    character.characterType,
    character.consoleType,
    character.consoleSerial,
    character.serialPort,
    character.consolePort,
  ]

  test.each<[string, Devices, Devices]>([
    [
      'is added for a serial port',
      { serials: [{ type: 'file', source: { path: '/log' } }] },
      {
        serials: [{ type: 'file', source: { path: '/log' }, target: { port: 0 } }],
        consoles: [{ type: 'file', source: { path: '/log' }, target: { type: 'serial', port: 0 } }],
      },
    ],
    [
      'adds a serial port',
      { consoles: [{}] },
      {
        serials: [{ type: 'pty', target: { port: 0 } }],
        consoles: [{ type: 'pty', target: { type: 'serial', port: 0 } }],
      },
    ],
    [
      'is not added for a serial port on PCI',
      { serials: [{ type: 'pty', target: { type: 'pci-serial' } }] },
      { serials: [{ type: 'pty', target: { type: 'pci-serial', port: 0 } }] },
    ],
    [
      'has the number of its serial port, wherever it is in the list',
      { consoles: [{ target: { type: 'virtio' } }, { target: { type: 'serial' } }] },
      {
        serials: [{ type: 'pty', target: { port: 0 } }],
        consoles: [
          { type: 'pty', target: { type: 'virtio', port: 1 } },
          { type: 'pty', target: { type: 'serial', port: 0 } },
        ],
      },
    ],
  ])('%s', (_, devices, expected) => expect(devicesOf(rules, devices)).toEqual(expected))
})

test('connects to a socket, raw for TCP; does not change a listener or another type', () => {
  expect(
    devicesOf([character.tcpProtocol, character.socketMode], {
      serials: [
        { type: 'tcp', source: { host: 'a', service: '1' } },
        { type: 'unix', source: { path: '/s' } },
        { type: 'unix', source: { mode: 'bind', path: '/s' } },
        { type: 'pty' },
      ],
    })?.serials,
  ).toEqual([
    { type: 'tcp', source: { mode: 'connect', host: 'a', service: '1' }, protocol: { type: 'raw' } },
    { type: 'unix', source: { mode: 'connect', path: '/s' } },
    { type: 'unix', source: { mode: 'bind', path: '/s' } },
    { type: 'pty' },
  ])
})
