import { attribute, child, children, content, element, leaf } from '../description.ts'
import { maxFeatures, maxNumaCells, maxNumaPairs } from '../limits.ts'
import { cpuset, integer, oneOf, onOff, uint32, uint64, unit, yesNo } from '../scalar.ts'
import { cpuVendor, identifier } from '../text.ts'

const model = element('The named model.', {
  fallback: attribute(oneOf('allow', 'forbid'), 'Whether a model close to it will do where it is not to be had.'),
  vendorId: attribute(cpuVendor, 'The vendor string that the guest reads: 12 characters, no comma.', {
    xml: 'vendor_id',
  }),
  value: content(identifier, 'The name, e.g. `Skylake-Server`.'),
})

const topology = element('How virtual CPUs are spread over sockets and cores; the product is their greatest number.', {
  sockets: attribute(uint32, 'Sockets.'),
  dies: attribute(uint32, 'Dies in a socket.'),
  clusters: attribute(uint32, 'Clusters in a die.'),
  cores: attribute(uint32, 'Cores in a cluster.'),
  threads: attribute(uint32, 'Threads in a core.'),
})

const feature = element('A feature that is added to the model, or taken from it.', {
  policy: attribute(
    oneOf('force', 'require', 'optional', 'disable', 'forbid'),
    '`require` where absent: the VM does not start without it.',
  ),
  name: attribute(identifier, 'The name, e.g. `vmx`.'),
})

const cache = element('The caches that the guest sees.', {
  level: attribute(integer({ min: 1, max: 3 }), 'The level; all where absent.'),
  mode: attribute(
    oneOf('emulate', 'passthrough', 'disable'),
    "Made up by the hypervisor, the node's own, or none at all.",
  ),
})

const maxphysaddr = element('How many bits a physical address has.', {
  mode: attribute(oneOf('passthrough', 'emulate'), "The node's own, or `bits`."),
  bits: attribute(uint32, 'How many bits.'),
  limit: attribute(uint32, 'The most bits, with `passthrough`.'),
})

const sibling = element('How far another NUMA node is.', {
  id: attribute(uint32, 'The other NUMA node.'),
  value: attribute(integer({ min: 10, max: 254 }), 'The distance; 10 is this node itself.'),
})

const distances = element('How far the other NUMA nodes are.', {
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

const memoryCache = element('A cache on the side of the memory.', {
  level: attribute(uint32, 'The level, from 1.'),
  associativity: attribute(oneOf('none', 'direct', 'full'), 'How addresses map to lines.'),
  policy: attribute(oneOf('none', 'writeback', 'writethrough'), 'When writes reach the memory.'),
  size: child(cacheSize, 'Its size.'),
  line: child(cacheLine, 'The size of a line.'),
})

const cell = element(
  'One NUMA node of the guest.',
  {
    id: attribute(uint32, 'Its number, from 0.'),
    cpus: attribute(cpuset, 'Its virtual CPUs.'),
    memory: attribute(uint64, 'How much memory it has.'),
    unit: attribute(unit, 'The unit of the memory; KiB where absent.'),
    memAccess: attribute(oneOf('shared', 'private'), 'Who sees what the guest writes into it.'),
    discard: attribute(yesNo, 'Whether the memory is thrown away at shutdown instead of written to its file.'),
    distances: child(distances, 'How far the other NUMA nodes are.'),
    caches: children('cache', memoryCache, 'Caches on the side of the memory.', { key: [['level']] }),
  },
  { scale: { value: 'memory', unit: 'unit', absent: 'KiB', to: 'KiB' } },
)

const between = {
  initiator: attribute(uint32, 'The NUMA node that reads or writes.'),
  target: attribute(uint32, 'The NUMA node that has the memory.'),
  cache: attribute(uint32, 'The level of the cache that is meant; the memory itself where absent.'),
  type: attribute(oneOf('access', 'read', 'write'), 'What is meant.'),
} as const

const latency = element('How long an access takes.', {
  ...between,
  value: attribute(uint64, 'Nanoseconds.'),
})

const bandwidth = element(
  'How much flows in a second.',
  {
    ...between,
    value: attribute(uint64, 'The amount.'),
    unit: attribute(unit, 'The unit of the value.'),
  },
  { scale: { value: 'value', unit: 'unit', absent: 'KiB', to: 'KiB' } },
)

const interconnects = element('How fast NUMA nodes reach the memory of each other.', {
  latencies: children('latency', latency, 'How long accesses take.', {
    key: [['initiator', 'target', 'cache', 'type']],
    maxItems: maxNumaPairs,
  }),
  bandwidths: children('bandwidth', bandwidth, 'How much flows.', {
    key: [['initiator', 'target', 'cache', 'type']],
    maxItems: maxNumaPairs,
  }),
})

const numa = element('The NUMA nodes of the guest.', {
  cells: children('cell', cell, 'Each NUMA node.', { key: [['id']], maxItems: maxNumaCells }),
  interconnects: child(interconnects, 'How fast they reach each other.'),
})

export const cpu = element('The CPU that the guest sees.', {
  mode: attribute(
    oneOf('custom', 'host-model', 'host-passthrough', 'maximum'),
    "A named model, one close to the node's, the node's own, or all that the hypervisor can do.",
  ),
  match: attribute(oneOf('minimum', 'exact', 'strict'), "How the node's CPU must match the model and its features."),
  check: attribute(oneOf('none', 'partial', 'full'), 'How thoroughly that is checked at start.'),
  migratable: attribute(onOff, 'Whether features that cannot be migrated are left out.'),
  deprecatedFeatures: attribute(onOff, 'Whether features that the model lists as deprecated are enabled.', {
    xml: 'deprecated_features',
  }),
  model: child(model, 'The named model.'),
  vendor: leaf(identifier, 'The vendor whose CPU the node must have.'),
  topology: child(topology, 'Sockets, cores, threads.'),
  cache: child(cache, 'The caches that the guest sees.'),
  maxphysaddr: child(maxphysaddr, 'How many bits a physical address has.'),
  features: children('feature', feature, 'Features beside those of the model.', {
    key: [['name']],
    maxItems: maxFeatures,
  }),
  numa: child(numa, 'The NUMA nodes of the guest.'),
})
