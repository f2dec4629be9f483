import { rule } from './rule.ts'

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
