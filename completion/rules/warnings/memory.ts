import { bytesPer } from '../../../api/domain/size.ts'
import { integerOf } from '../../../api/domain/scalar-value.ts'
import { example } from '../rule.ts'
import type { Warning } from './warning.ts'

/** In bytes: a Linux kernel and its first process do not fit into less. */
const little = 16n * 1024n ** 2n
/** In bytes: more than any node has. */
const much = 64n * 1024n ** 4n

const units = ['KiB', 'MiB', 'GiB']

export const memoryAmount: Warning = {
  id: 'memory-amount',
  description: 'So little memory that no guest starts, or so much that no node has it: often a slip of the unit.',
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
    yield `memory is ${amount} ${unit ?? 'KiB'}, ${bytes < little ? 'too little for most guests' : 'more than a node has'}${question}`
  },
  example: example({ memory: { unit: 'b', value: 4 } }, { memory: { unit: 'MB', value: 64 } }),
}
