import type { Domain } from '../../api/domain/domain.ts'
import { numberOf } from '../defaults/reading.ts'
import { eachDevice, list, type DeviceOf } from './device.ts'
import { duplicate, invalid, tooMany, unsupported } from './finding.ts'
import { example, type Rule } from './rule.ts'

const serial = (...serials: DeviceOf<'serials'>[]): Domain => ({ devices: { serials } })

const serialKinds: { readonly [type: string]: { readonly address: string; readonly chip: string } } = {
  'isa-serial': { address: 'isa', chip: 'isa-serial' },
  'pci-serial': { address: 'pci', chip: 'pci-serial' },
  'usb-serial': { address: 'usb', chip: 'usb-serial' },
  'isa-debug': { address: 'isa', chip: 'isa-debugcon' },
}

const serialTarget = eachDevice('serials')(
  'serial-target',
  'A serial port has the chip of its kind and sits on the bus of its kind.',
  ({ target, address }, at) => {
    const kind = serialKinds[target?.type ?? 'isa-serial']
    if (!kind) return []
    const chip = target?.model?.name
    return [
      ...(chip !== undefined && chip !== kind.chip
        ? [
            invalid(
              `${at}.target.model.name`,
              chip,
              `must be ${kind.chip} for target type ${target?.type ?? 'isa-serial'}`,
            ),
          ]
        : []),
      ...(address?.type !== undefined && address.type !== kind.address
        ? [
            invalid(
              `${at}.address.type`,
              address.type,
              `must be ${kind.address} for target type ${target?.type ?? 'isa-serial'}`,
            ),
          ]
        : []),
    ]
  },
  example(
    serial({ type: 'pty', target: { type: 'isa-serial', model: { name: 'pci-serial' } } }),
    serial({ type: 'pty', target: { type: 'pci-serial', model: { name: 'pci-serial' } } }),
  ),
)

/** So many a PC has, at ports that are built into it. */
const isaPorts = 4

const serialPorts: Rule = {
  id: 'serial-ports',
  description: 'A PC has four serial ports of its own, from 0 to 3, each once; others are on PCI or USB.',
  about: ['serials'],
  *check({ domain }) {
    const taken = new Map<string, string>()
    let count = 0
    for (const [index, { target }] of list(domain, 'serials').entries()) {
      const at = `spec.domain.devices.serials[${index}]`
      const kind = target?.type ?? 'isa-serial'
      const port = numberOf(target?.port)
      if (kind === 'isa-serial') count += 1
      const suggestion = 'target: {type: pci-serial}'
      if (kind === 'isa-serial' && count > isaPorts)
        yield tooMany(at, undefined, `is one too many: a PC has ${isaPorts} serial ports`, suggestion)
      else if (kind === 'isa-serial' && port !== undefined && port >= isaPorts)
        yield invalid(
          `${at}.target.port`,
          port,
          `must be less than ${isaPorts}: a PC has so many serial ports`,
          suggestion,
        )
      if (port === undefined) continue
      const other = taken.get(`${kind} ${port}`)
      if (other === undefined) taken.set(`${kind} ${port}`, at)
      else yield duplicate(`${at}.target.port`, port, `is the port of ${other} as well`)
    }
  },
  example: example(serial({ type: 'pty', target: { port: 4 } }), serial({ type: 'pty', target: { port: 3 } })),
}

/** These lead to the agent in the guest, which reads one kind of port only. */
const onlyChannels = ['serials', 'parallels', 'consoles'] as const

const spiceAgentPlace: Rule = {
  id: 'spicevmc-place',
  description: 'The connection of the SPICE agent is a channel, and no serial port or console.',
  about: ['serials', 'parallels', 'consoles'],
  *check({ domain }) {
    for (const key of onlyChannels) {
      for (const [index, { type }] of list(domain, key).entries()) {
        const field = `spec.domain.devices.${key}[${index}].type`
        if (type === 'spicevmc') yield unsupported(field, type, 'is possible for channels only', 'devices.channels')
      }
    }
  },
  example: example(
    { devices: { graphics: [{ type: 'spice' }], serials: [{ type: 'spicevmc' }] } },
    { devices: { graphics: [{ type: 'spice' }], channels: [{ type: 'spicevmc', target: { type: 'virtio' } }] } },
  ),
}

export const serialRules: readonly Rule[] = [serialTarget, serialPorts, spiceAgentPlace]
