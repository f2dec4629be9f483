import { attribute, child, element, present } from '../description.ts'
import { oneOf, onOff, uint32, yesNo } from '../scalar.ts'
import { kibibytes, size } from './size.ts'
import { hypervisorVendor } from '../text.ts'

/** An element that is only on or off, like most of libvirt's features. */
const toggle = (description: string, xml?: string) =>
  child(
    element(description, { state: attribute(onOff, 'On or off; on if absent.') }),
    description,
    xml === undefined ? {} : { xml },
  )

const state = attribute(onOff, 'On or off.')

const apic = element('The interrupt controller of each CPU.', {
  eoi: attribute(onOff, 'Whether the guest may end interrupts without an exit.'),
})

const spinlocks = element('Lets Windows yield the CPU when it waits for a lock.', {
  state,
  retries: attribute(uint32, 'The number of retries before yielding; at least 4095.'),
})

const stimer = element('Synthetic timers.', {
  state,
  direct: toggle('Direct mode: timers that need no message.'),
})

const vendorId = element('The vendor that the hypervisor reports.', {
  state,
  value: attribute(hypervisorVendor, 'Up to 12 characters, no comma.'),
})

const tlbflush = element('Flushes the TLBs of other CPUs with a hypercall.', {
  state,
  direct: toggle('For nested guests too.'),
  extended: toggle('For ranges of addresses.'),
})

const hyperv = element('Hyper-V enlightenments, which Windows uses.', {
  mode: attribute(oneOf('custom', 'passthrough'), 'Those listed, or all that the node supports.'),
  relaxed: toggle('Relaxes the watchdog of Windows.'),
  vapic: toggle('A virtual interrupt controller.'),
  spinlocks: child(spinlocks, 'Yields the CPU when waiting for a lock.'),
  vpindex: toggle('The index of a virtual CPU.'),
  runtime: toggle('The time a virtual CPU has run.'),
  synic: toggle('A synthetic interrupt controller.'),
  stimer: child(stimer, 'Synthetic timers.'),
  reset: toggle('Reset by the hypervisor.'),
  vendorId: child(vendorId, 'The vendor that the hypervisor reports.', { xml: 'vendor_id' }),
  frequencies: toggle('The frequencies of TSC and APIC.'),
  reenlightenment: toggle('Notifies the guest of a changed TSC after migration.'),
  tlbflush: child(tlbflush, 'Flushes TLBs with a hypercall.'),
  ipi: toggle('Inter-processor interrupts with a hypercall.'),
  evmcs: toggle('Faster nested virtualization on Intel.'),
  avic: toggle('Lets the hardware handle interrupts.'),
  emsrBitmap: toggle('Avoids exits of nested guests.', 'emsr_bitmap'),
  xmmInput: toggle('Hypercall arguments in XMM registers.', 'xmm_input'),
})

const dirtyRing = element('Tracks written pages in a ring.', {
  state,
  size: attribute(uint32, 'Entries in the ring: a power of 2 from 1024 to 65536.'),
})

const kvm = element('Interfaces of KVM.', {
  hidden: toggle('Hides KVM from the guest.'),
  hintDedicated: toggle('Tells the guest that its CPUs are dedicated.', 'hint-dedicated'),
  pollControl: toggle('Lets the guest poll instead of the node.', 'poll-control'),
  pvIpi: toggle('Inter-processor interrupts with a hypercall.', 'pv-ipi'),
  dirtyRing: child(dirtyRing, 'Tracks written pages in a ring.', { xml: 'dirty-ring' }),
})

const smm = element('System management mode, which Secure Boot needs.', {
  state,
  tseg: child(size('The memory reserved for it.', { absent: 'MiB', to: 'largest' }), 'The memory reserved for it.'),
})

const ioapic = element('The interrupt controller of the machine.', {
  driver: attribute(oneOf('kvm', 'qemu'), 'The emulator; `qemu` splits the work with KVM.'),
})

const msrs = element('Registers of the CPU that KVM does not know.', {
  unknown: attribute(oneOf('ignore', 'fault'), 'What happens when the guest accesses one.'),
})

const tcg = element('Settings of pure emulation.', {
  tbCache: child(kibibytes('Memory for translated code.'), 'Memory for translated code.', {
    xml: 'tb-cache',
  }),
})

const asyncTeardown = element('Frees memory asynchronously after QEMU has exited.', {
  enabled: attribute(yesNo, 'Whether it is enabled.'),
})

const gic = element('The interrupt controller of ARM machines.', {
  version: attribute(oneOf('2', '3', 'host'), 'Its version.'),
})

export const features = element('Features of the hypervisor and the machine.', {
  acpi: present('ACPI: power button, hot-plug and more. Most guests need it.'),
  apic: child(apic, 'The interrupt controller of each CPU.'),
  pae: present('Physical addresses beyond 32 bits for 32-bit guests.'),
  hyperv: child(hyperv, 'Hyper-V enlightenments, which Windows uses.'),
  kvm: child(kvm, 'Interfaces of KVM.'),
  pvspinlock: toggle('Paravirtual spinlocks, which yield the CPU.'),
  pmu: toggle('Performance counters of the CPU.'),
  vmport: toggle("The I/O port of VMware's tools."),
  gic: child(gic, 'The interrupt controller of ARM machines; refused on x86.'),
  smm: child(smm, 'System management mode.'),
  ioapic: child(ioapic, 'The interrupt controller of the machine.'),
  vmcoreinfo: toggle('Lets dumps of the guest locate its kernel.'),
  msrs: child(msrs, 'Unknown registers of the CPU.'),
  tcg: child(tcg, 'Settings of pure emulation.'),
  asyncTeardown: child(asyncTeardown, 'Frees memory asynchronously after QEMU has exited.', { xml: 'async-teardown' }),
  ps2: toggle('The PS/2 controller.'),
})
