import { fill, rule, type Rule } from './rule.ts'

export const numatuneMemory = rule(
  'numatune-placement',
  'Where numad places virtual CPUs, it places their memory, if no nodes are named for it.',
  ({ vcpu, numatune }) => {
    const { nodeset, placement } = numatune?.memory ?? {}
    if (vcpu?.placement !== 'auto' || nodeset !== undefined || placement !== undefined) return undefined
    return { numatune: { memory: { placement: 'auto' } } }
  },
)

export const numatuneMode = rule(
  'numatune-mode',
  'Memory comes from the nodes that it is placed on, or from none.',
  ({ numatune }) => numatune?.memory && { numatune: { memory: { mode: 'strict' } } },
)

export const numatuneNodeMode: Rule = {
  name: 'numatune-node-mode',
  description: 'Memory of a NUMA node comes from the nodes that are named for it, or from none.',
  apply: ({ numatune }) => (numatune?.memnodes ?? []).map((one) => fill(one, { mode: 'strict' })),
}
