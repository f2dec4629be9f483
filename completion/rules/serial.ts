import type { Domain } from '../../api/domain/domain.ts'
import { numberOf } from '../defaults/reading.ts'
import { eachDevice, list, type DeviceOf } from './device.ts'
import { duplicate, invalid, tooMany, unsupported } from './finding.ts'
import { example, type Rule } from './rule.ts'

const serial = (...serials: DeviceOf<'serials'>[]): Domain => ({ devices: { serials } })

const serialKinds = {
  'isa-serial': { address: 'isa', chip: 'isa-serial' },
  'pci-serial': { address: 'pci', chip: 'pci-serial' },
  'usb-serial': { address: 'usb', chip: 'usb-serial' },
  'isa-debug': { address: 'isa', chip: 'isa-debugcon' },
} as const

const serialTarget = eachDevice('serials')(
  'serial-target',
  'The chip and the address of a serial port must match its target type.',
  ({ target, address }, at) => {
    const kind = serialKinds[target?.type ?? 'isa-serial']
    const chip = target?.model?.name
    return [
      ...(chip !== kind.chip
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

/** The serial ports that are built into a PC. */
const isaPorts = 4

const serialPorts: Rule = {
  id: 'serial-ports',
  description: 'A VM can have at most four ISA serial ports, 0 to 3; ports must be unique per target type.',
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
        yield tooMany(at, undefined, `at most ${isaPorts} ISA serial ports are supported`, suggestion)
      if (port === undefined) continue
      if (kind === 'isa-serial' && count <= isaPorts && port >= isaPorts)
        yield invalid(
          `${at}.target.port`,
          port,
          `must be less than ${isaPorts}, the number of ISA serial ports`,
          suggestion,
        )
      const other = taken.get(`${kind} ${port}`)
      if (other === undefined) taken.set(`${kind} ${port}`, at)
      else yield duplicate(`${at}.target.port`, port, `is already the port of ${other}`)
    }
  },
  example: example(serial({ type: 'pty', target: { port: 4 } }), serial({ type: 'pty', target: { port: 3 } })),
}

/** Kinds of device that the SPICE agent in the guest does not read. */
const onlyChannels = ['serials', 'parallels', 'consoles'] as const

const spiceAgentPlace: Rule = {
  id: 'spicevmc-place',
  description: 'Only a channel, not a serial port or console, can connect the SPICE agent.',
  about: ['serials', 'parallels', 'consoles'],
  *check({ domain }) {
    for (const key of onlyChannels) {
      for (const [index, { type }] of list(domain, key).entries()) {
        const field = `spec.domain.devices.${key}[${index}].type`
        if (type === 'spicevmc')
          yield unsupported(field, type, 'is only supported for channels', 'use devices.channels')
      }
    }
  },
  example: example(
    { devices: { graphics: [{ type: 'spice' }], serials: [{ type: 'spicevmc' }] } },
    { devices: { graphics: [{ type: 'spice' }], channels: [{ type: 'spicevmc', target: { type: 'virtio' } }] } },
  ),
}

export const serialRules: readonly Rule[] = [serialTarget, serialPorts, spiceAgentPlace]
