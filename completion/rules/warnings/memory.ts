import { bytesPer } from '../../../api/domain/elements/size.ts'
import { integerOf } from '../../../api/domain/scalar-value.ts'
import { memoryOfNodes } from '../../defaults/memory.ts'
import { example } from '../rule.ts'
import type { Warning } from './warning.ts'

/** In bytes: the least memory in which Linux boots. */
const little = 16n * 1024n ** 2n
/** In bytes: more than the memory of any node. */
const much = 64n * 1024n ** 4n

const units = ['KiB', 'MiB', 'GiB']

export const memoryAmount: Warning = {
  id: 'memory-amount',
  description: 'The memory is too small for any guest or larger than any node. Often the unit is wrong.',
  *check({ spec }) {
    const { value, unit } = spec.domain.memory ?? {}
    const amount = integerOf(value)
    const bytes = amount === undefined ? undefined : amount * (bytesPer(unit ?? 'KiB') ?? 1024n)
    if (amount === undefined || bytes === undefined || bytes === 0n || (bytes >= little && bytes <= much)) return
    const better = units.find((one) => {
      const size = amount * (bytesPer(one) ?? 1n)
      return size >= 64n * 1024n ** 2n && size <= 1024n ** 4n
    })
    const question = better === undefined ? '' : `; did you mean ${amount} ${better}?`
    yield `memory is ${amount} ${unit ?? 'KiB'}, ${bytes < little ? 'too little for most guests' : 'more than any node has'}${question}`
  },
  example: example({ memory: { unit: 'b', value: 4 } }, { memory: { unit: 'MB', value: 64 } }),
}

export const memorySum: Warning = {
  id: 'memory-sum',
  description: 'The memory of a guest with NUMA nodes is the sum of its nodes and memory devices; `memory` is ignored.',
  about: ['cells'],
  *check({ domain, originOf }) {
    const given = integerOf(domain.memory?.value)
    const sum = memoryOfNodes(domain)
    if (sum === 0n || given === undefined || originOf('spec.domain.memory.value').by === 'default') return
    if (sum !== given)
      yield `memory is ${given} KiB, but the guest has ${sum} KiB, the sum of its NUMA nodes and memory devices`
  },
  example: example(
    { memory: { unit: 'GiB', value: 2 }, cpu: { numa: { cells: [{ id: 0, cpus: '0', memory: 1, unit: 'GiB' }] } } },
    { memory: { unit: 'GiB', value: 1 }, cpu: { numa: { cells: [{ id: 0, cpus: '0', memory: 1, unit: 'GiB' }] } } },
  ),
}
