import { deviceFields } from './address.ts'
import { attribute, child, element, leaf, present } from '../description.ts'
import { cpuset, hex, oneOf, path, uint32, uuid, yesNo } from '../scalar.ts'
import { kibibytes } from './size.ts'

const host = { reach: 'host' } as const

const source = element('Where the memory comes from.', {
  pagesize: child(kibibytes('Size of the pages.'), 'Size of the pages; as the memory of its NUMA node when absent.'),
  nodemask: leaf(cpuset, 'NUMA nodes of the node.', host),
  path: leaf(path, 'The file that keeps it.', host),
  alignsize: child(kibibytes('Alignment of its mapping.'), 'Alignment of its mapping.'),
  pmem: present('The file is on persistent memory.', host),
})

const target = element('What the guest sees.', {
  dynamicMemslots: attribute(yesNo, 'Whether it is mapped in parts as it grows, with `virtio-mem`.'),
  size: child(kibibytes('How much memory.'), 'How much memory; the most, with `virtio-mem`.'),
  node: leaf(uint32, 'NUMA node of the guest.'),
  label: child(
    element('The label area of an NVDIMM.', { size: child(kibibytes('Its size.'), 'Its size.') }),
    'The label area of an NVDIMM.',
  ),
  block: child(kibibytes('The step in which it grows.'), 'The step in which it grows, with `virtio-mem`.'),
  requested: child(kibibytes('How much the guest is to have.'), 'How much the guest is to have, with `virtio-mem`.'),
  current: child(kibibytes('How much the guest has.'), 'How much the guest has, reported by libvirt.', { live: true }),
  readonly: present('The guest cannot write to an NVDIMM.'),
  address: child(
    element('Where it begins.', {
      base: attribute(hex(1, 0xffffffffffffffffn), 'Guest-physical address.'),
    }),
    'Where it begins, with virtio models.',
  ),
})

export const memoryDevice = element('Memory that can be plugged in.', {
  model: attribute(oneOf('dimm', 'nvdimm', 'virtio-pmem', 'virtio-mem', 'sgx-epc'), 'The kind of module.', {
    reachOf: { 'sgx-epc': 'host', nvdimm: 'pod', 'virtio-pmem': 'pod' },
  }),
  access: attribute(oneOf('shared', 'private'), 'Whether other processes see what is written.'),
  discard: attribute(yesNo, 'Whether its content is thrown away when it goes.'),
  uuid: leaf(uuid, 'UUID of an NVDIMM.'),
  source: child(source, 'Where the memory comes from.'),
  target: child(target, 'What the guest sees.'),
  ...deviceFields,
})
