import { fill, rule, type Rule } from './rule.ts'

export const numatuneMemory = rule(
  'numatune-placement',
  'If numad places virtual CPUs, it places their memory too, unless nodes are set for it.',
  ({ vcpu, numatune }) => {
    const { nodeset, placement } = numatune?.memory ?? {}
    if (vcpu?.placement !== 'auto' || nodeset !== undefined || placement !== undefined) return undefined
    return { numatune: { memory: { placement: 'auto' } } }
  },
)

export const numatuneMode = rule(
  'numatune-mode',
  'The mode of memory is `strict`: it comes only from the nodes that it is placed on.',
  ({ numatune }) => numatune?.memory && { numatune: { memory: { mode: 'strict' } } },
)

export const numatuneNodeMode: Rule = {
  name: 'numatune-node-mode',
  description: 'The mode of a NUMA node’s memory is `strict`: it comes only from the nodes that are set for it.',
  apply: ({ numatune }) => (numatune?.memnodes ?? []).map((one) => fill(one, { mode: 'strict' })),
}
