import { allDevices } from './device.ts'
import { forbidden, invalid, required, unsupported } from './finding.ts'
import { example, type Rule } from './rule.ts'

/** The devices that can have an address of each type that is not on PCI. */
const holders: { readonly [type: string]: readonly string[] } = {
  'virtio-serial': ['channels', 'consoles'],
  ccid: ['smartcards'],
  dimm: ['memories'],
  unassigned: ['hostdevs'],
}

const addressKind: Rule = {
  id: 'address-kind',
  description:
    'The type of an address must be supported by the device; the address of a memory module must have a slot.',
  *check({ domain }) {
    for (const { kind, at, device } of allDevices(domain)) {
      const { type, slot } = device.address ?? {}
      if (type === undefined) continue
      const field = `${at}.address.type`
      const allowed = holders[type]
      if (allowed && !allowed.includes(kind)) yield forbidden(field, type, `can only be set for ${allowed.join(', ')}`)
      else if (kind === 'redirdevs' && type !== 'usb') yield invalid(field, type, 'must be usb for a redirected device')
      else if (type === 'virtio-s390' || type === 'mdev') yield unsupported(field, type, 'is not supported on x86')
      if (type === 'dimm' && slot === undefined) yield required(`${at}.address.slot`, 'must be set for type dimm')
    }
  },
  example: example(
    { devices: { rngs: [{ model: 'virtio', backend: { model: 'builtin' }, address: { type: 'unassigned' } }] } },
    { devices: { rngs: [{ model: 'virtio', backend: { model: 'builtin' }, address: { type: 'pci', slot: 9 } }] } },
  ),
}

/** The fields of each type of address, for the types that x86 has. */
const fieldsOf: { readonly [type: string]: readonly string[] } = {
  pci: ['domain', 'bus', 'slot', 'function', 'multifunction'],
  drive: ['controller', 'bus', 'target', 'unit'],
  'virtio-serial': ['controller', 'bus', 'port'],
  ccid: ['controller', 'slot'],
  usb: ['bus', 'port'],
  isa: ['iobase', 'irq'],
  dimm: ['slot', 'base'],
  unassigned: [],
}

const addressFields: Rule = {
  id: 'address-fields',
  description: 'An address must have only the fields of its type.',
  *check({ domain }) {
    for (const { at, device } of allDevices(domain)) {
      const { type, ...fields } = device.address ?? {}
      const allowed = fieldsOf[type ?? '']
      if (allowed === undefined) continue
      for (const [key, value] of Object.entries(fields)) {
        if (allowed.includes(key)) continue
        const which = allowed.length === 0 ? 'which has no fields' : `only ${allowed.join(', ')}`
        yield forbidden(`${at}.address.${key}`, value, `must not be set for type ${type}, ${which}`)
      }
    }
  },
  example: example(
    { devices: { hubs: [{ type: 'usb', address: { type: 'usb', bus: 0, port: '1', slot: 1 } }] } },
    { devices: { hubs: [{ type: 'usb', address: { type: 'usb', bus: 0, port: '1' } }] } },
  ),
}

export const addressRules: readonly Rule[] = [addressKind, addressFields]
