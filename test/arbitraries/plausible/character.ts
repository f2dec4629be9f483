import fc from 'fast-check'
import type { Domain } from '../../../api/domain/domain.ts'
import type { DeviceOf } from '../../../completion/defaults/rule.ts'
import { pci, usbAddress, virtioSerial } from './address.ts'
import { any, many, mostly, part, rarely, small, weighted, type Json } from './part.ts'

type Console = DeviceOf<'consoles'>
type Serial = DeviceOf<'serials'>

const chardev = weighted(
  [4, fc.constant({ type: 'pty' })],
  [1, fc.constant({ type: 'null' })],
  [1, fc.constant({ type: 'file', source: { path: '/tmp/serial.log' } })],
  [1, fc.constant({ type: 'unix', source: { mode: 'bind', path: '/tmp/serial.sock' } })],
  [1, fc.constant({ type: 'tcp', source: { mode: 'bind', host: '127.0.0.1', service: '2222' } })],
  [1, fc.constant({ type: 'stdio' })],
  [1, fc.constant({ type: 'vc' })],
)

const character = (rest: fc.Arbitrary<Json>): fc.Arbitrary<Json> =>
  fc.tuple(chardev, rest).map(([source, other]) => ({ ...Object(source), ...other }))

const serials = many(
  character(
    rarely(
      {},
      {
        target: rarely(
          {},
          {
            type: mostly('devices.serials.target.type', 'isa-serial', 'pci-serial', 'usb-serial'),
            port: small(3),
            model: part({ name: any('devices.serials.target.model.name') }),
          },
        ),
        address: weighted([1, pci], [1, usbAddress], [1, fc.constant({ type: 'isa', iobase: '0x3f8', irq: '0x4' })]),
      },
    ),
  ),
)

const parallels = many(character(rarely({}, { target: part({ port: small(2) }) })), 2)

const consoles = many(
  character(
    rarely(
      {},
      {
        target: part({ type: fc.constantFrom('serial', 'virtio') }, { port: small(2) }),
        address: virtioSerial,
      },
    ),
  ),
)

const channels = many(
  weighted(
    [
      3,
      character(
        rarely(
          {
            target: part(
              { type: fc.constant('virtio') },
              { name: fc.constantFrom('org.qemu.guest_agent.0', 'com.example.1') },
            ),
          },
          { address: virtioSerial },
        ),
      ),
    ],
    [1, fc.constant({ type: 'unix', target: { type: 'virtio', name: 'org.qemu.guest_agent.0' } })],
    [1, fc.constant({ type: 'spicevmc', target: { type: 'virtio', name: 'com.redhat.spice.0' } })],
    [1, fc.constant({ type: 'qemu-vdagent', target: { type: 'virtio', name: 'com.redhat.spice.0' } })],
  ),
)

const smartcards = many(
  weighted([2, fc.constant({ mode: 'host' })], [1, fc.constant({ mode: 'passthrough', type: 'spicevmc' })]),
  1,
)

const redirdevs = many(
  rarely(
    { type: fc.constantFrom('spicevmc', 'tcp'), bus: fc.constant('usb') },
    { source: fc.constant({ mode: 'connect', host: 'localhost', service: '4000' }), address: usbAddress },
  ),
  2,
)

export const characters = { serials, parallels, consoles, channels, smartcards, redirdevs }

/** Makes all consoles but the first virtio, and keeps addresses only on virtio consoles. */
export const carefulConsole = ({ address, ...one }: Console, index: number): Console => {
  const target = index > 0 ? { ...one.target, type: 'virtio' as const } : one.target
  return { ...one, ...(target ? { target } : {}), ...(address && target?.type === 'virtio' ? { address } : {}) }
}

/** The name of a port of each kind, and its bus. */
const kinds: { readonly [type: string]: { readonly name: string; readonly bus: string } } = {
  'isa-serial': { name: 'isa-serial', bus: 'isa' },
  'pci-serial': { name: 'pci-serial', bus: 'pci' },
  'usb-serial': { name: 'usb-serial', bus: 'usb' },
  'isa-debug': { name: 'isa-debugcon', bus: 'isa' },
}

/** Makes a serial port consistent: the model of its kind, and an address on the bus of its kind. */
export const carefulSerial = ({ address, target, ...one }: Serial): Serial => {
  const kind = target?.type === undefined ? undefined : kinds[target.type]
  const { type: _t, model: _m, ...rest } = target ?? {}
  return {
    ...one,
    ...(target ? { target: { ...rest, ...(kind ? { type: target.type, model: { name: kind.name } } : {}) } } : {}),
    ...(address?.type === (kind?.bus ?? 'isa') ? { address } : {}),
  } as Serial
}

/** Drops SPICE channels if there is no SPICE display. */
export const withViewer = <T extends { readonly type?: string }>(
  devices: readonly T[],
  graphics: NonNullable<Domain['devices']>['graphics'] = [],
): T[] => devices.filter(({ type }) => type !== 'spicevmc' || graphics.some((one) => one.type === 'spice'))
