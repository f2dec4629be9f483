import { blkiotune } from './elements/blkiotune.ts'
import { clock } from './elements/clock.ts'
import { cpu } from './elements/cpu.ts'
import { cputune } from './elements/cputune.ts'
import { attribute, child, children, element, foreign, leaf, type Json } from './description.ts'
import { devices } from './elements/devices.ts'
import { features } from './elements/features.ts'
import { idmap } from './elements/idmap.ts'
import { defaultiothread, iothreadids } from './elements/iothreads.ts'
import { keywrap } from './elements/keywrap.ts'
import { launchSecurity } from './elements/launch-security.ts'
import { currentMemory, maxMemory, memory, memoryBacking } from './elements/memory.ts'
import { memtune } from './elements/memtune.ts'
import { numatune } from './elements/numatune.ts'
import { os } from './elements/os.ts'
import { perf } from './elements/perf.ts'
import { pm } from './elements/pm.ts'
import { qemuCapabilities, qemuCommandline, qemuDeprecation, qemuOverride } from './elements/qemu.ts'
import { resource } from './elements/resource.ts'
import { int32, oneOf, uint32, uuid } from './scalar.ts'
import { seclabel } from './elements/seclabel.ts'
import { sysinfo } from './elements/sysinfo.ts'
import { throttlegroups } from './elements/throttlegroups.ts'
import { vcpu, vcpus } from './elements/vcpu.ts'
import { fileName, line, prose } from './text.ts'

const host = { reach: 'host' } as const

/** The root of libvirt's Domain XML for x86_64. */
export const domain = element('The virtual machine, as libvirt describes it.', {
  type: attribute(oneOf('qemu', 'kvm', 'hvf'), 'The accelerator: `kvm` needs /dev/kvm on the node, `qemu` emulates.'),
  id: attribute(int32, 'The number that libvirt gives to a running VM.', { live: true }),
  name: leaf(fileName, "libvirt's name of the VM; the name of the object if absent.", { reach: 'pod' }),
  uuid: leaf(uuid, 'The UUID of the machine that the guest sees; generated once if absent.'),
  genid: leaf(
    { kind: 'uuid', mayBeEmpty: true },
    'A new value notifies the guest that it was copied or rolled back; if empty, one is generated.',
  ),
  title: leaf(line(), 'A short title, one line.'),
  description: leaf(prose, 'Free text.'),
  metadata: foreign('XML of applications, each element in its own namespace.'),
  maxMemory: child(maxMemory, 'How far memory can grow by plugging in memory devices.'),
  memory: child(memory, 'The memory that the guest boots with.'),
  currentMemory: child(currentMemory, 'The memory that the balloon leaves to the guest at start.'),
  blkiotune: child(blkiotune, 'Limits on the use of block devices of the node.', host),
  memtune: child(memtune, 'Limits on the memory of the whole QEMU process.', host),
  memoryBacking: child(memoryBacking, 'How the memory of the guest is backed.'),
  vcpu: child(vcpu, 'The number of virtual CPUs.'),
  vcpus: child(vcpus, 'The state of individual virtual CPUs.'),
  iothreads: leaf(uint32, 'The number of I/O threads.'),
  iothreadids: child(iothreadids, 'The individual I/O threads.'),
  defaultiothread: child(defaultiothread, "The worker threads of QEMU's main loop."),
  throttlegroups: child(throttlegroups, 'Limits that several disks share.'),
  cputune: child(cputune, 'How the node schedules the threads of the VM.', host),
  numatune: child(numatune, "The host's NUMA nodes that the guest's memory is allocated on.", host),
  resource: child(resource, "How the node accounts for the VM's resources.", host),
  sysinfos: children('sysinfo', sysinfo, 'What the guest reads about its own hardware.', { key: [['type']] }),
  os: child(os, 'How the guest boots.'),
  idmap: child(idmap, 'How user and group IDs inside are mapped to IDs outside.', host),
  features: child(features, 'Features of the hypervisor and the machine.'),
  cpu: child(cpu, 'The CPU that the guest sees.'),
  clock: child(clock, 'The clock that the guest boots with.'),
  onPoweroff: leaf(
    oneOf('destroy', 'restart', 'preserve', 'rename-restart'),
    'What happens when the guest powers off.',
    { xml: 'on_poweroff' },
  ),
  onReboot: leaf(oneOf('destroy', 'restart', 'preserve', 'rename-restart'), 'What happens when the guest reboots.', {
    xml: 'on_reboot',
  }),
  onCrash: leaf(
    oneOf('destroy', 'restart', 'preserve', 'rename-restart', 'coredump-destroy', 'coredump-restart'),
    'What happens when the guest crashes.',
    { xml: 'on_crash', reachOf: { 'coredump-destroy': 'pod', 'coredump-restart': 'pod' } },
  ),
  onLockfailure: leaf(
    oneOf('poweroff', 'restart', 'pause', 'ignore'),
    'What happens when the lock of a disk is lost.',
    {
      xml: 'on_lockfailure',
    },
  ),
  pm: child(pm, 'Sleep states that the firmware offers.'),
  perf: child(perf, 'Performance events that the node counts for this VM.', host),
  devices: child(devices, 'Everything that the guest finds on its buses.'),
  seclabels: children('seclabel', seclabel, 'How security modules of the node confine QEMU.', {
    ...host,
    key: [['model']],
  }),
  qemuCommandline: child(qemuCommandline, "Arguments added to QEMU's command line.", {
    ...host,
    xml: 'qemu:commandline',
  }),
  qemuCapabilities: child(qemuCapabilities, 'QEMU capabilities that libvirt must assume to be present or absent.', {
    ...host,
    xml: 'qemu:capabilities',
  }),
  qemuOverride: child(qemuOverride, "Properties of devices that override libvirt's.", {
    ...host,
    xml: 'qemu:override',
  }),
  qemuDeprecation: child(qemuDeprecation, 'How QEMU reacts to deprecated features.', {
    ...host,
    xml: 'qemu:deprecation',
  }),
  keywrap: child(keywrap, 'Which protected keys the guest may create.'),
  launchSecurity: child(launchSecurity, "Memory encryption, which protects the guest's memory from the node."),
})

export type Domain = Json<typeof domain>
