import { testRule, testSilent } from '../../test/rule-table.ts'

const hugepages = { pages: [{ size: 1, unit: 'GiB' }] }
const cell = (memory: number) => ({ id: 0, cpus: '0', unit: 'MiB', memory })

testRule('huge-pages', [
  {
    refused: { memory: { unit: 'MiB', value: 65 }, memoryBacking: { hugepages: {} } },
    causes: [
      'spec.domain.memory.value: Invalid value: "68157440": is 68157440 bytes, and must be a multiple of the size of its huge pages, 2Mi; 64 MiB or 66 MiB',
    ],
    accepted: { memory: { unit: 'MiB', value: 66 }, memoryBacking: { hugepages: {} } },
  },
  {
    refused: { memoryBacking: { hugepages }, cpu: { numa: { cells: [cell(512)] } } },
    causes: [
      'spec.domain.cpu.numa.cells[0].memory: Invalid value: "536870912": is 536870912 bytes, and must be a multiple of the size of its huge pages, 1Gi; 1024 MiB',
    ],
    accepted: { memoryBacking: { hugepages }, cpu: { numa: { cells: [cell(1024)] } } },
  },
])

testSilent('huge-pages', [{ memory: { unit: 'MiB', value: 65 } }])
