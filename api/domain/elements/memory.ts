import { attribute, child, children, content, element, present } from '../description.ts'
import { oneOf, onOff, uint32, uint64, unit } from '../scalar.ts'
import { kibibytes } from './size.ts'

export const memory = element(
  'The memory that the guest boots with.',
  {
    dumpCore: attribute(onOff, "Whether a core dump of QEMU contains the guest's memory."),
    unit: attribute(unit, 'The unit of the value; KiB if absent.'),
    value: content(uint64, 'The amount.'),
  },
  { whole: true, scale: { value: 'value', unit: 'unit', absent: 'KiB', to: 'KiB' } },
)

export const currentMemory = kibibytes('The memory that the balloon leaves to the guest at start; at most `memory`.')

export const maxMemory = element(
  'How far memory can grow by plugging in memory devices.',
  {
    slots: attribute(uint32, 'The number of memory devices that can be plugged in.'),
    unit: attribute(unit, 'The unit of the value; KiB if absent.'),
    value: content(uint64, 'The amount.'),
  },
  { whole: true, scale: { value: 'value', unit: 'unit', absent: 'KiB', to: 'KiB' } },
)

const page = element(
  'Huge pages of one size.',
  {
    size: attribute(uint64, 'The size of a page.'),
    unit: attribute(unit, 'The unit of the size; KiB if absent.'),
    nodeset: attribute({ kind: 'cpuset' }, 'The NUMA nodes of the guest that get these pages; all if absent.'),
  },
  { scale: { value: 'size', unit: 'unit', absent: 'KiB', to: 'KiB' } },
)

const hugepages = element('Pages larger than 4 KiB.', {
  pages: children('page', page, 'The sizes; the default size of the node if absent.', { reach: 'pod' }),
})

const source = element('Where the memory comes from.', {
  type: attribute(oneOf('anonymous', 'file', 'memfd'), '`memfd` and `file` can be shared with other processes.', {
    reachOf: { file: 'host' },
  }),
})

const access = element("Whether other processes see the guest's writes to its memory.", {
  mode: attribute(oneOf('shared', 'private'), 'vhost-user devices and virtiofs need `shared`.'),
})

const allocation = element('When memory is allocated.', {
  mode: attribute(oneOf('immediate', 'ondemand'), 'At start, or when the guest first touches it.'),
  threads: attribute(uint32, 'The number of threads that allocate it at start.'),
})

export const memoryBacking = element('How the memory of the guest is backed on the node.', {
  hugepages: child(hugepages, 'Backs the guest with huge pages; the pod must request them.', { reach: 'pod' }),
  nosharepages: present('Prevents the node from merging equal pages of several guests.'),
  locked: present('Locks the memory so that it is never swapped; it stays allocated on the node.', { reach: 'host' }),
  source: child(source, 'Where the memory comes from.'),
  access: child(access, 'Shared or private.'),
  allocation: child(allocation, 'When memory is allocated.'),
  discard: present('Discards the memory at shutdown instead of writing it back to its file.'),
})
