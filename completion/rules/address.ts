import { allDevices } from './device.ts'
import { forbidden, invalid, required, unsupported } from './finding.ts'
import { example, type Rule } from './rule.ts'

/** Which kinds of device have an address of each kind that is not on PCI. */
const holders: { readonly [type: string]: readonly string[] } = {
  'virtio-serial': ['channels', 'consoles'],
  ccid: ['smartcards'],
  dimm: ['memories'],
  unassigned: ['hostdevs'],
}

export const addressKind: Rule = {
  id: 'address-kind',
  description: 'An address is of a bus on which such a device can be, and names the slot of a memory module.',
  *check({ domain }) {
    for (const { kind, at, device } of allDevices(domain)) {
      const { type, slot } = device.address ?? {}
      if (type === undefined) continue
      const field = `${at}.address.type`
      const allowed = holders[type]
      if (allowed && !allowed.includes(kind))
        yield forbidden(field, type, `may be given for ${allowed.join(', ')} only`)
      else if (kind === 'redirdevs' && type !== 'usb') yield invalid(field, type, 'must be usb for such a device')
      else if (type === 'virtio-s390' || type === 'mdev')
        yield unsupported(field, type, 'is no address of a device of a PC')
      if (type === 'dimm' && slot === undefined) yield required(`${at}.address.slot`, 'must be given for type dimm')
    }
  },
  example: example(
    { devices: { rngs: [{ model: 'virtio', backend: { model: 'builtin' }, address: { type: 'unassigned' } }] } },
    { devices: { rngs: [{ model: 'virtio', backend: { model: 'builtin' }, address: { type: 'pci', slot: 9 } }] } },
  ),
}
