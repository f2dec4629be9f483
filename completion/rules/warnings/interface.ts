import { virtioModels } from '../../../api/domain/elements/virtio.ts'
import { nearest } from '../../../api/nearest.ts'
import { list } from '../device.ts'
import { example } from '../rule.ts'
import type { Warning } from './warning.ts'

/** The network cards of QEMU 10.0 for a PC, and libvirt's names of the virtio ones. */
const cards = [
  ...virtioModels,
  'e1000',
  'e1000-82544gc',
  'e1000-82545em',
  'e1000e',
  'igb',
  'i82550',
  'i82551',
  'i82557a',
  'i82557b',
  'i82557c',
  'i82558a',
  'i82558b',
  'i82559a',
  'i82559b',
  'i82559c',
  'i82559er',
  'i82562',
  'i82801',
  'ne2k_isa',
  'ne2k_pci',
  'pcnet',
  'rtl8139',
  'tulip',
  'usb-net',
  'vmxnet3',
]

export const unknownCard: Warning = {
  id: 'interface-model-unknown',
  description: 'QEMU does not have this network card.',
  about: ['interfaces'],
  *check({ domain }) {
    for (const [index, { model }] of list(domain, 'interfaces').entries()) {
      const type = model?.type
      if (type === undefined || cards.includes(type.toLowerCase())) continue
      const near = nearest(type, cards)
      const question = near === undefined ? '' : `; did you mean ${near}?`
      yield `devices.interfaces[${index}]: QEMU has no network card ${JSON.stringify(type.slice(0, 30))}${question}`
    }
  },
  example: example(
    { devices: { interfaces: [{ type: 'user', model: { type: 'e100' } }] } },
    { devices: { interfaces: [{ type: 'user', model: { type: 'e1000' } }] } },
  ),
}

export const sameMac: Warning = {
  id: 'interface-mac-twice',
  description: 'Two interfaces have the same MAC address, so that a network cannot distinguish them.',
  about: ['interfaces'],
  *check({ domain }) {
    const seen = new Map<string, number>()
    for (const [index, { mac }] of list(domain, 'interfaces').entries()) {
      const address = mac?.address?.toLowerCase()
      if (address === undefined) continue
      const other = seen.get(address)
      if (other === undefined) seen.set(address, index)
      else yield `devices.interfaces[${index}]: has the MAC address of interfaces[${other}], ${address}`
    }
  },
  example: example(
    {
      devices: {
        interfaces: ['52:54:00:00:00:01', '52:54:00:00:00:01'].map((address) => ({ type: 'user', mac: { address } })),
      },
    },
    {
      devices: {
        interfaces: ['52:54:00:00:00:01', '52:54:00:00:00:02'].map((address) => ({ type: 'user', mac: { address } })),
      },
    },
  ),
}

/**
 * A warning, not a cause: separate networks can each use the address, and libvirt accepts it. Generated addresses are
 * unique.
 */
export const takenMac: Warning = {
  id: 'interface-mac-taken',
  description: 'Another VM of the cluster has the same MAC address. On a common network both lose packets.',
  about: ['interfaces'],
  *check({ domain, isMacTaken }) {
    if (isMacTaken === undefined) return
    for (const [index, { mac }] of list(domain, 'interfaces').entries()) {
      const address = mac?.address
      if (address === undefined || !isMacTaken(address)) continue
      yield `devices.interfaces[${index}]: another VM of the cluster already has the MAC address ${address}`
    }
  },
  example: example(
    { devices: { interfaces: [{ type: 'user', mac: { address: '52:54:00:00:00:0A' } }] } },
    { devices: { interfaces: [{ type: 'user', mac: { address: '52:54:00:00:00:0B' } }] } },
  ),
}
