import type { Domain } from '../../../api/domain/domain.ts'
import { testWarning } from '../../../test/rule-table.ts'

const memory = (value: number | string, unit?: string): Domain => ({
  memory: { value, ...(unit === undefined ? {} : { unit }) },
})

testWarning('memory-amount', [
  {
    warned: memory(4, 'b'),
    lines: ['memory is 4 b, too little for most guests; did you mean 4 GiB?'],
    silent: memory(4, 'GiB'),
  },
  {
    warned: memory(512),
    lines: ['memory is 512 KiB, too little for most guests; did you mean 512 MiB?'],
    silent: memory(16_384),
  },
  {
    warned: memory(16_383, 'KiB'),
    lines: ['memory is 16383 KiB, too little for most guests; did you mean 16383 MiB?'],
    silent: memory(16, 'MiB'),
  },
  {
    warned: memory('65537', 'GiB'),
    lines: ['memory is 65537 GiB, more than any node has; did you mean 65537 KiB?'],
    silent: memory(64, 'TiB'),
  },
  {
    warned: memory(64, 'PiB'),
    lines: ['memory is 64 PiB, more than any node has; did you mean 64 MiB?'],
    silent: memory(64, 'TiB'),
  },
  {
    warned: memory('1073741824', 'GiB'),
    lines: ['memory is 1073741824 GiB, more than any node has; did you mean 1073741824 KiB?'],
    silent: memory('1073741824', 'KiB'),
  },
  {
    warned: memory('2199023255552', 'KiB'),
    lines: ['memory is 2199023255552 KiB, more than any node has'],
    silent: memory('21990232555', 'KiB'),
  },
])

const cells = (given: NonNullable<Domain['memory']>, ...sizes: number[]): Domain => ({
  memory: given,
  vcpu: { value: sizes.length },
  cpu: { numa: { cells: sizes.map((size, id) => ({ id, cpus: `${id}`, memory: size, unit: 'GiB' })) } },
})

const gib = (value: number) => ({ unit: 'GiB', value })

const plugged = (given: NonNullable<Domain['memory']>): Domain => ({
  ...cells(given, 1),
  maxMemory: { ...gib(8), slots: 1 },
  devices: { memories: [{ model: 'dimm', target: { size: gib(1), node: 0 } }] },
})

testWarning('memory-sum', [
  {
    warned: cells(gib(3), 1, 1),
    lines: ['memory is 3145728 KiB, but the guest has 2097152 KiB, the sum of its NUMA nodes and memory devices'],
    silent: cells(gib(2), 1, 1),
  },
  {
    warned: cells(gib(1), 1, 1),
    lines: ['memory is 1048576 KiB, but the guest has 2097152 KiB, the sum of its NUMA nodes and memory devices'],
    silent: cells({}, 1, 1),
  },
  {
    warned: plugged(gib(1)),
    lines: ['memory is 1048576 KiB, but the guest has 2097152 KiB, the sum of its NUMA nodes and memory devices'],
    silent: plugged(gib(2)),
  },
])
