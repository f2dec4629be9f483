import { expect, test } from 'vitest'
import type { Domain } from '../../api/domain/domain.ts'
import { bundledCapabilities } from '../capabilities.ts'
import { prepare, testRule, testSilent } from '../../test/rule-table.ts'
import { memoryRules } from './memory.ts'
import { runRules } from './rules.ts'

const gib = (value: number) => ({ unit: 'GiB', value })

const cells = (...sizes: number[]): Domain => ({
  vcpu: { value: sizes.length },
  cpu: { numa: { cells: sizes.map((memory, id) => ({ id, cpus: `${id}`, memory, unit: 'EiB' })) } },
})

const oneCell = { numa: { cells: [{ id: 0, cpus: '0', memory: 1, unit: 'GiB' }] } }

testRule('memory', [
  {
    refused: { memory: {} },
    causes: [
      'spec.domain.memory: Required value: must be more than 0: the memory of the guest; e.g. {unit: GiB, value: 2}',
    ],
    accepted: { memory: gib(1) },
  },
  {
    refused: { memory: gib(0) },
    causes: [
      'spec.domain.memory.value: Invalid value: 0: must be more than 0: the memory of the guest; e.g. {unit: GiB, value: 2}',
    ],
    accepted: { memory: gib(1) },
  },
  {
    refused: { memory: gib(0), cpu: { numa: { cells: [{ id: 0, cpus: '0', memory: 0, unit: 'GiB' }] } } },
    causes: [
      'spec.domain.memory.value: Invalid value: 0: must be more than 0: the memory of the guest; e.g. {unit: GiB, value: 2}',
    ],
    accepted: { memory: gib(0), cpu: oneCell },
  },
])

/** In KiB: 1 MiB less than 8 EiB. */
const most = '9007199254739968'
const tooMuch = '9007199254739969'

testRule('memory-size', [
  {
    refused: { memory: { value: tooMuch } },
    causes: [
      'spec.domain.memory.value: Invalid value: "9007199254739969": must be less than 8 EiB after rounding up to whole MiB',
      `spec.domain.currentMemory.value: Invalid value: "9007199254739969": must be less than 8 EiB after rounding up to whole MiB (libvirt's default, current-memory)`,
    ],
    accepted: { memory: gib(1) },
  },
  {
    refused: { currentMemory: { value: tooMuch } },
    causes: [
      'spec.domain.currentMemory.value: Invalid value: "9007199254739969": must be less than 8 EiB after rounding up to whole MiB',
    ],
    accepted: { currentMemory: { value: most } },
  },
  {
    refused: { maxMemory: { value: tooMuch, slots: 1 }, cpu: oneCell },
    causes: [
      'spec.domain.maxMemory.value: Invalid value: "9007199254739969": must be less than 8 EiB after rounding up to whole MiB',
    ],
    accepted: { maxMemory: { value: most, slots: 1 }, cpu: oneCell },
  },
  {
    refused: cells(8),
    causes: [
      'spec.domain.cpu.numa.cells[0].memory: Invalid value: "9007199254740992": must be less than 8 EiB after rounding up to whole MiB',
    ],
    accepted: cells(1),
  },
  {
    refused: {
      maxMemory: { ...gib(8), slots: 1 },
      cpu: oneCell,
      devices: { memories: [{ model: 'dimm', target: { size: { unit: 'EiB', value: 8 }, node: 0 } }] },
    },
    causes: [
      'spec.domain.devices.memories[0].target.size.value: Invalid value: "9007199254740992": must be less than 8 EiB after rounding up to whole MiB',
    ],
    accepted: {
      maxMemory: { ...gib(8), slots: 1 },
      cpu: oneCell,
      devices: { memories: [{ model: 'dimm', target: { size: gib(1), node: 0 } }] },
    },
  },
])

testRule('memory-demand', [
  {
    refused: cells(7, 1),
    causes: [
      'spec.domain.memory.value: Invalid value: 1048576: must be less: with NUMA nodes, devices and caches QEMU can allocate 9277415232555253760 bytes; the limit is 8 EiB',
    ],
    accepted: cells(6, 1),
  },
])

testRule('max-memory', [
  {
    refused: { maxMemory: { slots: 1 }, cpu: oneCell },
    causes: [
      'spec.domain.maxMemory.value: Required value: must be set together with slots: the most memory that the guest can get',
    ],
    accepted: { maxMemory: { ...gib(1), slots: 1 }, cpu: oneCell },
  },
  {
    refused: { memory: gib(2), maxMemory: { ...gib(1), slots: 1 }, cpu: oneCell },
    causes: ['spec.domain.maxMemory.value: Invalid value: 1048576: must not be less than memory'],
    accepted: { memory: gib(2), maxMemory: { ...gib(2), slots: 1 }, cpu: oneCell },
  },
  {
    refused: { maxMemory: { ...gib(2), slots: 1 } },
    causes: [
      'spec.domain.cpu.numa.cells: Required value: must be set with maxMemory: plugged memory belongs to a NUMA node of the guest; e.g. one cell with id 0, all cpus and all memory',
    ],
    accepted: { maxMemory: { ...gib(2), slots: 1 }, cpu: oneCell },
  },
])

type Backing = NonNullable<Domain['memoryBacking']>

const huge = (pages: NonNullable<NonNullable<Backing['hugepages']>['pages']>, more: Backing = {}): Domain => ({
  memoryBacking: { hugepages: { pages }, ...more },
})

const mib = (size: number, nodeset?: string) => ({ size, unit: 'MiB', ...(nodeset === undefined ? {} : { nodeset }) })

const twoCells = {
  vcpu: { value: 2 },
  cpu: { numa: { cells: [0, 1].map((id) => ({ id, cpus: `${id}`, memory: 1, unit: 'GiB' })) } },
}

testRule('memory-backing', [
  {
    refused: huge([mib(2)], { source: { type: 'anonymous' } }),
    causes: [
      'spec.domain.memoryBacking.source.type: Forbidden: anonymous memory does not support huge pages; did you mean "memfd"?',
    ],
    accepted: huge([mib(2)], { source: { type: 'memfd' } }),
  },
  {
    refused: huge([mib(2)], { allocation: { mode: 'ondemand' } }),
    causes: [
      'spec.domain.memoryBacking.allocation.mode: Forbidden: is not supported with huge pages, which are allocated at the start',
    ],
    accepted: huge([mib(2)], { allocation: { mode: 'immediate' } }),
  },
  {
    refused: { ...twoCells, ...huge([mib(2, '0-1'), mib(1024, '1')]) },
    causes: [
      'spec.domain.memoryBacking.hugepages.pages[1].nodeset: Duplicate value: "1": node 1 is already in pages[0]',
    ],
    accepted: { ...twoCells, ...huge([mib(2, '0'), mib(1024, '1')]) },
  },
  {
    refused: { ...twoCells, ...huge([mib(2), mib(1024)]) },
    causes: [
      'spec.domain.memoryBacking.hugepages.pages[1].nodeset: Required value: must be set: pages[0] already applies to all other nodes',
    ],
    accepted: { ...twoCells, ...huge([mib(2), mib(1024, '1')]) },
  },
  {
    refused: huge([{ nodeset: '0' }]),
    causes: ['spec.domain.memoryBacking.hugepages.pages[0].size: Required value: must be set: the size of the pages'],
    accepted: huge([mib(2, '0')]),
  },
  {
    refused: huge([mib(0)]),
    causes: ['spec.domain.memoryBacking.hugepages.pages[0].size: Required value: must be set: the size of the pages'],
    accepted: huge([mib(2)]),
  },
  {
    refused: { ...twoCells, ...huge([mib(2, '0-2')]) },
    causes: ['spec.domain.memoryBacking.hugepages.pages[0].nodeset: Not found: "0-2": cpu.numa has no cell 2'],
    accepted: { ...twoCells, ...huge([mib(2, '0-1')]) },
  },
  {
    refused: huge([mib(2, '1')]),
    causes: ['spec.domain.memoryBacking.hugepages.pages[0].nodeset: Not found: "1": cpu.numa has no cell 1'],
    accepted: huge([mib(2, '0')]),
  },
])

testRule('huge-page-size', [
  {
    refused: huge([mib(5, '0')]),
    causes: [
      'spec.domain.memoryBacking.hugepages.pages[0].size: Invalid value: "5120 KiB": must be a page size that the node supports: 4, 2048, 1048576 KiB [node without pages of 5120 KiB]',
    ],
    accepted: huge([mib(2, '0')]),
  },
])

const weights = (...paths: string[]): Domain => ({
  blkiotune: { devices: paths.map((path) => ({ path, weight: 500 })) },
})

testRule('memory-tune', [
  {
    refused: { memtune: { minGuarantee: { unit: 'MiB', value: 64 } } },
    causes: ['spec.domain.memtune.minGuarantee: Unsupported value: is not supported by QEMU; use softLimit'],
    accepted: { memtune: { softLimit: { unit: 'MiB', value: 64 } } },
  },
  {
    refused: weights('/dev/sda', '/dev/sda'),
    causes: ['spec.domain.blkiotune.devices[1].path: Duplicate value: "/dev/sda": is listed more than once'],
    accepted: weights('/dev/sda', '/dev/sdb'),
  },
])

test('only the sizes of huge pages are checked for each kind of node, not the sets of nodes', () => {
  const [spec, context] = prepare(huge([mib(2, '0')]))
  const { reading } = runRules(memoryRules, { ...context, spec, domain: spec.domain })
  expect(reading.map(({ id }) => id)).toEqual(['huge-page-size'])
})

testSilent('max-memory', [{}])
testSilent('memory-backing', [{}, { ...twoCells, ...huge([mib(2, '0'), mib(1024)]) }])
testSilent('huge-page-size', [{}, huge([mib(0)])])
testSilent('huge-page-size', [huge([mib(5)])], { capabilities: { ...bundledCapabilities, host: {} } })
testSilent('memory-tune', [{ memtune: { minGuarantee: { value: 0 } } }, { blkiotune: { devices: [{}, {}] } }])
