import { deviceFields } from './address.ts'
import { attribute, child, element, leaf, present } from '../description.ts'
import { bareHex, cpuset, oneOf, path, uint32, uuid, yesNo } from '../scalar.ts'
import { kibibytes } from './size.ts'

const host = { reach: 'host' } as const

const source = element('Where the memory comes from.', {
  pagesize: child(kibibytes('Size of the pages.'), 'Size of the pages; that of its NUMA node if absent.'),
  nodemask: leaf(cpuset, 'NUMA nodes of the host.', host),
  path: leaf(path, 'The file that backs it.', host),
  alignsize: child(kibibytes('Alignment of its mapping.'), 'Alignment of its mapping.'),
  pmem: present('The file is on persistent memory.', host),
})

const target = element('What the guest sees.', {
  dynamicMemslots: attribute(yesNo, 'Whether it is mapped in parts as it grows, with `virtio-mem`.'),
  size: child(kibibytes('The amount of memory.'), 'The amount of memory; with `virtio-mem`, the maximum.', {
    ofGrant: [],
  }),
  node: leaf(uint32, 'NUMA node of the guest.'),
  label: child(
    element('The label area of an NVDIMM.', { size: child(kibibytes('Its size.'), 'Its size.') }),
    'The label area of an NVDIMM.',
  ),
  block: child(
    kibibytes('The granularity in which it grows.'),
    'The granularity in which it grows, with `virtio-mem`.',
  ),
  requested: child(
    kibibytes('The amount that the guest should have.'),
    'The amount that the guest should have, with `virtio-mem`.',
  ),
  current: child(kibibytes('The amount that the guest has.'), 'The amount that the guest has, reported by libvirt.', {
    live: true,
  }),
  readonly: present('The guest cannot write to an NVDIMM.', { ofGrant: ['*'] }),
  address: child(
    element('The address where it begins.', {
      base: attribute(bareHex(1, 0xffffffffffffffffn), 'Guest-physical address.'),
    }),
    'The address where it begins, with virtio models.',
  ),
})

export const memoryDevice = element('Memory that can be plugged in.', {
  model: attribute(oneOf('dimm', 'nvdimm', 'virtio-pmem', 'virtio-mem', 'sgx-epc'), 'The kind of module.', {
    reachOf: { 'sgx-epc': 'host', nvdimm: 'pod', 'virtio-pmem': 'pod' },
    ofGrant: [],
  }),
  access: attribute(oneOf('shared', 'private'), "Whether other processes see the guest's writes.", {
    ofGrant: ['private'],
  }),
  discard: attribute(yesNo, 'Whether its content is discarded when it is removed.'),
  uuid: leaf(uuid, 'UUID of an NVDIMM.'),
  source: child(source, 'Where the memory comes from.'),
  target: child(target, 'What the guest sees.'),
  ...deviceFields,
})
