import { attribute, child, children, content, element, leaf } from '../description.ts'
import { maxFeatures, maxNumaCells, maxNumaPairs } from '../limits.ts'
import { cpuset, integer, oneOf, onOff, uint32, uint64, unit, yesNo } from '../scalar.ts'
import { cpuVendor, identifier } from '../text.ts'

const model = element('The named model.', {
  fallback: attribute(oneOf('allow', 'forbid'), 'Whether a similar model may be used if this one is unavailable.'),
  vendorId: attribute(cpuVendor, 'The vendor string that the guest reads: 12 characters, no comma.', {
    xml: 'vendor_id',
  }),
  value: content(identifier, 'The name, e.g. `Skylake-Server`.'),
})

const topology = element('The CPU topology; the product is the maximum number of virtual CPUs.', {
  sockets: attribute(uint32, 'Sockets.'),
  dies: attribute(uint32, 'Dies per socket.'),
  clusters: attribute(uint32, 'Clusters per die.'),
  cores: attribute(uint32, 'Cores per cluster.'),
  threads: attribute(uint32, 'Threads per core.'),
})

const feature = element('A feature that is added to or removed from the model.', {
  policy: attribute(
    oneOf('force', 'require', 'optional', 'disable', 'forbid'),
    '`require` if absent: the VM does not start without the feature.',
  ),
  name: attribute(identifier, 'The name, e.g. `vmx`.'),
})

const cache = element('The caches that the guest sees.', {
  level: attribute(integer({ min: 1, max: 3 }), 'The level; all levels if absent.'),
  mode: attribute(
    oneOf('emulate', 'passthrough', 'disable'),
    'Emulated by the hypervisor, passed through from the node, or disabled.',
  ),
})

const maxphysaddr = element('The number of bits of a physical address.', {
  mode: attribute(oneOf('passthrough', 'emulate'), "The node's own, or `bits`."),
  bits: attribute(uint32, 'The number of bits.'),
  limit: attribute(uint32, 'The maximum number of bits, with `passthrough`.'),
})

const sibling = element('The distance to another NUMA node.', {
  id: attribute(uint32, 'The other NUMA node.'),
  value: attribute(integer({ min: 10, max: 254 }), 'The distance; 10 is this node itself.'),
})

const distances = element('The distances to the other NUMA nodes.', {
  siblings: children('sibling', sibling, 'Each other NUMA node.', { key: [['id']], maxItems: maxNumaCells }),
})

const cacheSize = element(
  'The size of the cache.',
  {
    value: attribute(uint64, 'The amount.'),
    unit: attribute(unit, 'The unit of the value.'),
  },
  { whole: true, scale: { value: 'value', unit: 'unit', absent: 'bytes', to: 'KiB' } },
)

const cacheLine = element(
  'The size of a line of the cache.',
  {
    value: attribute(uint64, 'The amount.'),
    unit: attribute(unit, 'The unit of the value.'),
  },
  { whole: true, scale: { value: 'value', unit: 'unit', absent: 'bytes', to: 'B' } },
)

const memoryCache = element('A memory-side cache.', {
  level: attribute(uint32, 'The level, from 1.'),
  associativity: attribute(oneOf('none', 'direct', 'full'), 'How addresses map to lines.'),
  policy: attribute(oneOf('none', 'writeback', 'writethrough'), 'The write policy.'),
  size: child(cacheSize, 'Its size.'),
  line: child(cacheLine, 'The size of a line.'),
})

const cell = element(
  'One NUMA node of the guest.',
  {
    id: attribute(uint32, 'Its number, from 0.'),
    cpus: attribute(cpuset, 'Its virtual CPUs.'),
    memory: attribute(uint64, 'The amount of memory.'),
    unit: attribute(unit, 'The unit of the memory; KiB if absent.'),
    memAccess: attribute(oneOf('shared', 'private'), "Whether other processes see the guest's writes."),
    discard: attribute(yesNo, 'Whether the memory is discarded at shutdown instead of written to its file.'),
    distances: child(distances, 'The distances to the other NUMA nodes.'),
    caches: children('cache', memoryCache, 'Memory-side caches.', { key: [['level']] }),
  },
  { scale: { value: 'memory', unit: 'unit', absent: 'KiB', to: 'KiB' } },
)

const between = {
  initiator: attribute(uint32, 'The NUMA node that reads or writes.'),
  target: attribute(uint32, 'The NUMA node that has the memory.'),
  cache: attribute(uint32, 'The level of the cache; the memory itself if absent.'),
  type: attribute(oneOf('access', 'read', 'write'), 'The kind of access.'),
} as const

const latency = element('The latency of an access.', {
  ...between,
  value: attribute(uint64, 'Nanoseconds.'),
})

const bandwidth = element(
  'The bandwidth per second.',
  {
    ...between,
    value: attribute(uint64, 'The amount.'),
    unit: attribute(unit, 'The unit of the value.'),
  },
  { scale: { value: 'value', unit: 'unit', absent: 'KiB', to: 'KiB' } },
)

const interconnects = element('Latencies and bandwidths between the NUMA nodes.', {
  latencies: children('latency', latency, 'The latencies.', {
    key: [['initiator', 'target', 'cache', 'type']],
    maxItems: maxNumaPairs,
  }),
  bandwidths: children('bandwidth', bandwidth, 'The bandwidths.', {
    key: [['initiator', 'target', 'cache', 'type']],
    maxItems: maxNumaPairs,
  }),
})

const numa = element('The NUMA nodes of the guest.', {
  cells: children('cell', cell, 'Each NUMA node.', { key: [['id']], maxItems: maxNumaCells }),
  interconnects: child(interconnects, 'Latencies and bandwidths between them.'),
})

export const cpu = element('The CPU that the guest sees.', {
  mode: attribute(
    oneOf('custom', 'host-model', 'host-passthrough', 'maximum'),
    "A named model, a model similar to the node's CPU, the node's CPU, or every feature of the hypervisor.",
  ),
  match: attribute(oneOf('minimum', 'exact', 'strict'), "How the node's CPU must match the model and its features."),
  check: attribute(oneOf('none', 'partial', 'full'), 'How thoroughly the CPU is checked at start.'),
  migratable: attribute(onOff, 'Whether features that cannot be migrated are left out.'),
  deprecatedFeatures: attribute(onOff, 'Whether features that the model lists as deprecated are enabled.', {
    xml: 'deprecated_features',
  }),
  model: child(model, 'The named model.'),
  vendor: leaf(identifier, 'The CPU vendor that the node must have.'),
  topology: child(topology, 'Sockets, cores, threads.'),
  cache: child(cache, 'The caches that the guest sees.'),
  maxphysaddr: child(maxphysaddr, 'The number of bits of a physical address.'),
  features: children('feature', feature, "Features in addition to the model's.", {
    key: [['name']],
    maxItems: maxFeatures,
  }),
  numa: child(numa, 'The NUMA nodes of the guest.'),
})
