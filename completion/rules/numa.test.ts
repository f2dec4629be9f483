import type { Domain } from '../../api/domain/domain.ts'
import { bundledCapabilities } from '../capabilities.ts'
import { testRule, testSilent } from '../../test/rule-table.ts'

type Numa = NonNullable<NonNullable<Domain['cpu']>['numa']>
type Cell = NonNullable<Numa['cells']>[number]

const withCells = (...cells: Cell[]): Domain => ({
  vcpu: { value: 2 },
  cpu: { numa: { cells: cells.map((cell) => ({ memory: 512, unit: 'MiB', ...cell })) } },
})

testRule('numa-cells', [
  {
    refused: withCells({ id: 0, cpus: '0' }, { id: 0, cpus: '1' }),
    causes: [
      'spec.domain.cpu.numa.cells[1].id: Duplicate value: 0: is already the id of spec.domain.cpu.numa.cells[0]',
    ],
    accepted: withCells({ id: 0, cpus: '0' }, { id: 1, cpus: '1' }),
  },
  {
    refused: withCells({ id: 0, cpus: '0' }, { id: 2, cpus: '1' }),
    causes: [
      'spec.domain.cpu.numa.cells[1].id: Invalid value: 2: must be from 0 to 1: the ids of 2 nodes must have no gap',
    ],
    accepted: withCells({ id: 1, cpus: '0' }, { id: 0, cpus: '1' }),
  },
  {
    refused: { vcpu: { value: 2 }, cpu: { numa: { cells: [{ id: 0, cpus: '0-1' }] } } },
    causes: ['spec.domain.cpu.numa.cells[0].memory: Required value: must be set: the memory of the NUMA node'],
    accepted: withCells({ id: 0, cpus: '0-1' }),
  },
  {
    refused: withCells({ id: 0, cpus: '0-1' }, { id: 1, cpus: '1' }),
    causes: [
      'spec.domain.cpu.numa.cells[1].cpus: Invalid value: "1": CPU 1 is already in spec.domain.cpu.numa.cells[0]',
    ],
    accepted: withCells({ id: 0, cpus: '0' }, { id: 1, cpus: '1' }),
  },
  {
    refused: withCells({ id: 0, cpus: '0-2' }),
    causes: ['spec.domain.cpu.numa.cells[0].cpus: Not found: "0-2": the VM has no CPU 2, only 0 to 1'],
    accepted: withCells({ id: 0, cpus: '0-1' }),
  },
  {
    refused: { ...withCells({ id: 0, cpus: '0-1' }), vcpu: { value: 1 } },
    causes: ['spec.domain.cpu.numa.cells[0].cpus: Not found: "0-1": the VM has no CPU 1, only 0 to 0'],
    accepted: { ...withCells({ id: 0, cpus: '0' }), vcpu: { value: 1 } },
  },
])

const distant = (siblings: NonNullable<NonNullable<Cell['distances']>['siblings']>): Domain =>
  withCells({ id: 0, cpus: '0', distances: { siblings } }, { id: 1, cpus: '1' })

testRule('numa-distances', [
  {
    refused: distant([{ value: 20 }]),
    causes: [
      'spec.domain.cpu.numa.cells[0].distances.siblings[0].id: Required value: must be set: the other NUMA node',
    ],
    accepted: distant([{ id: 1, value: 20 }]),
  },
  {
    refused: distant([{ id: 2, value: 20 }]),
    causes: [
      'spec.domain.cpu.numa.cells[0].distances.siblings[0].id: Not found: 2: the guest has NUMA nodes 0 to 1 only',
    ],
    accepted: distant([{ id: 1, value: 20 }]),
  },
  {
    refused: distant([{ id: 0, value: 11 }]),
    causes: [
      'spec.domain.cpu.numa.cells[0].distances.siblings[0].value: Invalid value: 11: must be 10 for the node itself',
    ],
    accepted: distant([{ id: 0, value: 10 }]),
  },
  {
    refused: distant([{ id: 1, value: 10 }]),
    causes: [
      'spec.domain.cpu.numa.cells[0].distances.siblings[0].value: Invalid value: 10: must be more than 10 for another node',
      "spec.domain.cpu.numa.cells[1].distances.siblings[0].value: Invalid value: 10: must be more than 10 for another node (libvirt's default, numa-distance)",
    ],
    accepted: distant([{ id: 1, value: 11 }]),
  },
])

const capabilities = { ...bundledCapabilities, host: { ...bundledCapabilities.host, numaNodes: 2 } }

const tuned = (numatune: NonNullable<Domain['numatune']>): Domain => ({
  ...withCells({ id: 0, cpus: '0' }, { id: 1, cpus: '1' }),
  numatune,
})

testRule('numatune', [
  {
    refused: tuned({ memnodes: [{ nodeset: '0' }, { nodeset: '0' }] }),
    causes: [
      'spec.domain.numatune.memnodes[0].cellid: Required value: must be set: the NUMA node of the guest',
      'spec.domain.numatune.memnodes[1].cellid: Required value: must be set: the NUMA node of the guest',
    ],
    accepted: tuned({ memnodes: [0, 1].map((cellid) => ({ cellid, nodeset: '0' })) }),
  },
  {
    refused: tuned({ memory: { mode: 'strict' } }),
    causes: ['spec.domain.numatune.memory.nodeset: Required value: must be set for static placement'],
    accepted: tuned({ memory: { mode: 'strict', nodeset: '0' } }),
  },
  {
    refused: tuned({ memory: { mode: 'strict', placement: 'static' } }),
    causes: ['spec.domain.numatune.memory.nodeset: Required value: must be set for static placement'],
    accepted: tuned({ memory: { mode: 'strict', placement: 'auto' } }),
  },
  {
    refused: tuned({ memory: { nodeset: '0-2' } }),
    causes: [
      'spec.domain.numatune.memory.nodeset: Not found: "0-2": the node has no NUMA node 2, only 0 to 1 [node without NUMA node 2]',
    ],
    accepted: tuned({ memory: { nodeset: '0-1' } }),
    capabilities,
  },
  {
    refused: tuned({ memory: { placement: 'auto' }, memnodes: [{ cellid: 0, nodeset: '0' }] }),
    causes: [
      'spec.domain.numatune.memnodes: Forbidden: must not be set with memory.placement auto, where numad places the memory',
    ],
    accepted: tuned({ memory: { placement: 'static', nodeset: '0' }, memnodes: [{ cellid: 0, nodeset: '0' }] }),
  },
  {
    refused: tuned({ memnodes: [{ nodeset: '0' }] }),
    causes: ['spec.domain.numatune.memnodes[0].cellid: Required value: must be set: the NUMA node of the guest'],
    accepted: tuned({ memnodes: [{ cellid: 0, nodeset: '0' }] }),
  },
  {
    refused: tuned({ memnodes: [0, 0].map((cellid) => ({ cellid, nodeset: '0' })) }),
    causes: [
      'spec.domain.numatune.memnodes[1].cellid: Duplicate value: 0: is already bound by another item of memnodes',
    ],
    accepted: tuned({ memnodes: [0, 1].map((cellid) => ({ cellid, nodeset: '0' })) }),
  },
  {
    refused: tuned({ memnodes: [{ cellid: 2, nodeset: '0' }] }),
    causes: ['spec.domain.numatune.memnodes[0].cellid: Not found: 2: cpu.numa has no cell with this id'],
    accepted: tuned({ memnodes: [{ cellid: 1, nodeset: '0' }] }),
  },
  {
    refused: tuned({ memnodes: [{ cellid: 0 }] }),
    causes: ['spec.domain.numatune.memnodes[0].nodeset: Required value: must be set'],
    accepted: tuned({ memnodes: [{ cellid: 0, nodeset: '0' }] }),
  },
  {
    refused: tuned({ memnodes: [{ cellid: 0, nodeset: '2' }] }),
    causes: [
      'spec.domain.numatune.memnodes[0].nodeset: Not found: "2": the node has no NUMA node 2, only 0 to 1 [node without NUMA node 2]',
    ],
    accepted: tuned({ memnodes: [{ cellid: 0, nodeset: '1' }] }),
    capabilities,
  },
  {
    refused: tuned({ memory: { nodeset: '0' }, memnodes: [{ cellid: 0, mode: 'restrictive', nodeset: '0' }] }),
    causes: [
      `spec.domain.numatune.memory.mode: Invalid value: "strict": must be restrictive, like the mode of memnodes[0] (libvirt's default, numatune-mode)`,
    ],
    accepted: tuned({
      memory: { mode: 'restrictive', nodeset: '0' },
      memnodes: [{ cellid: 0, mode: 'restrictive', nodeset: '0' }],
    }),
  },
  {
    refused: tuned({ memory: { mode: 'restrictive', nodeset: '0' }, memnodes: [{ cellid: 0, nodeset: '0' }] }),
    causes: [
      `spec.domain.numatune.memnodes[0].mode: Invalid value: "strict": must be restrictive, like the mode of memory (libvirt's default, numatune-node-mode)`,
    ],
    accepted: tuned({ memory: { mode: 'preferred', nodeset: '0' }, memnodes: [{ cellid: 0, nodeset: '0' }] }),
  },
])

const size = { value: 8, unit: 'KiB' }
const cache = (level: number) => ({
  level,
  associativity: 'direct' as const,
  policy: 'writeback' as const,
  size,
  line: { value: 64, unit: 'B' },
})

type Links = NonNullable<Numa['interconnects']>

/** Two NUMA nodes, of which the second has no CPUs and a cache of level 1. */
const linked = (interconnects: Links): Domain => ({
  cpu: {
    numa: {
      cells: [
        { id: 0, cpus: '0', memory: 1, unit: 'GiB' },
        { id: 1, memory: 1, unit: 'GiB', caches: [cache(1)] },
      ],
      interconnects,
    },
  },
})

const latency = (more: NonNullable<Links['latencies']>[number] = {}) => ({
  initiator: 0,
  target: 1,
  type: 'access' as const,
  value: 5,
  ...more,
})

const bandwidth = (more: NonNullable<Links['bandwidths']>[number] = {}) => ({
  initiator: 0,
  target: 1,
  type: 'access' as const,
  value: 5,
  unit: 'GiB',
  ...more,
})

const cached = (...levels: number[]): Domain =>
  withCells({ id: 0, cpus: '0-1', caches: levels.map((level) => cache(level)) })

testRule('numa-interconnects', [
  {
    refused: linked({ bandwidths: [bandwidth({ target: 2, cache: 1 })] }),
    causes: [
      'spec.domain.cpu.numa.interconnects.bandwidths[0].target: Not found: 2: the guest has NUMA nodes 0 to 1 only',
    ],
    accepted: linked({ bandwidths: [bandwidth({ target: 1, cache: 1 })] }),
  },
  {
    refused: linked({ latencies: [latency({ initiator: 2 })] }),
    causes: [
      'spec.domain.cpu.numa.interconnects.latencies[0].initiator: Not found: 2: the guest has NUMA nodes 0 to 1 only',
    ],
    accepted: linked({ latencies: [latency({ initiator: 0 })] }),
  },
  {
    refused: linked({ bandwidths: [bandwidth({ target: 2 })] }),
    causes: [
      'spec.domain.cpu.numa.interconnects.bandwidths[0].target: Not found: 2: the guest has NUMA nodes 0 to 1 only',
    ],
    accepted: linked({ bandwidths: [bandwidth({ target: 1 })] }),
  },
  {
    refused: linked({ latencies: [latency({ initiator: 1 })] }),
    causes: [
      'spec.domain.cpu.numa.interconnects.latencies[0].initiator: Invalid value: 1: is a NUMA node without CPUs, which cannot initiate memory access',
    ],
    accepted: linked({ latencies: [latency({ initiator: 0 })] }),
  },
  {
    refused: linked({ bandwidths: [bandwidth({ cache: 2 })] }),
    causes: [
      'spec.domain.cpu.numa.interconnects.bandwidths[0].cache: Not found: 2: NUMA node 1 has no cache of this level',
    ],
    accepted: linked({ bandwidths: [bandwidth({ cache: 1 })] }),
  },
  {
    refused: linked({ latencies: [latency(), latency()] }),
    causes: [
      'spec.domain.cpu.numa.interconnects.latencies[1]: Duplicate value: repeats an item with the same initiator, target, cache and type',
    ],
    accepted: linked({ latencies: [latency(), latency({ cache: 1 })] }),
  },
  {
    refused: linked({ latencies: [latency(), latency()] }),
    causes: [
      'spec.domain.cpu.numa.interconnects.latencies[1]: Duplicate value: repeats an item with the same initiator, target, cache and type',
    ],
    accepted: linked({ latencies: [latency(), latency({ type: 'read' })] }),
  },
  {
    refused: cached(0),
    causes: ['spec.domain.cpu.numa.cells[0].caches[0].level: Invalid value: 0: must be from 1 to 3'],
    accepted: cached(1),
  },
  {
    refused: cached(4),
    causes: ['spec.domain.cpu.numa.cells[0].caches[0].level: Invalid value: 4: must be from 1 to 3'],
    accepted: cached(3),
  },
  {
    refused: cached(1, 1),
    causes: ['spec.domain.cpu.numa.cells[0].caches[1].level: Duplicate value: 1: is listed more than once'],
    accepted: cached(1, 2),
  },
])

testSilent('numa-distances', [distant([{ id: 0 }])])
testSilent('numatune', [{}])
testSilent('numa-interconnects', [withCells({ id: 0, cpus: '0-1', caches: [{}, {}] })])
