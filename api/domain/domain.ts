import { attribute, child, element, type Json } from './description.ts'
import { oneOf } from './scalar.ts'
import { devices } from './devices.ts'

/** The root of libvirt's Domain XML for x86_64. */
export const domain = element('The virtual machine, as libvirt describes it.', {
  type: attribute(oneOf('qemu', 'kvm', 'hvf'), 'The accelerator: `kvm` needs /dev/kvm on the node, `qemu` emulates.'),
  devices: child(devices, 'Everything that the guest finds on its buses.'),
})

export type Domain = Json<typeof domain>
