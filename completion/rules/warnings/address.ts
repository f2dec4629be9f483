import { numberOf } from '../../defaults/reading.ts'
import { allDevices } from '../device.ts'
import { example, type Example } from '../rule.ts'
import type { Warning } from './warning.ts'

const nic = (slot: number): Example['breaks']['domain'] => ({
  devices: { interfaces: [{ type: 'user', address: { type: 'pci', bus: 0, slot } }] },
})

export const zeroAddress: Warning = {
  id: 'pci-address-zero',
  description: 'The PCI address 0000:00:00 is that of the root, and means to libvirt that there is none: it picks one.',
  *check({ domain }) {
    for (const { at, device } of allDevices(domain)) {
      const { address } = device
      if (address?.type !== 'pci' || address.slot === undefined) continue
      if ([address.domain, address.bus, address.slot].some((part) => (numberOf(part) ?? 0) !== 0)) continue
      yield `${at.replace('spec.domain.', '')}: libvirt picks a PCI address for 0000:00:00; leave it out to have it kept`
    }
  },
  example: example(nic(0), nic(9)),
}
