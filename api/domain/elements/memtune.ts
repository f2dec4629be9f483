import { child, element } from '../description.ts'
import { kibibytes } from './size.ts'

const limit = (description: string) => child(kibibytes(description, { reach: 'host' }), description, { reach: 'host' })

/** Limits of the QEMU process in the cgroup of the node. Usually the pod's resources are set instead. */
export const memtune = element('Limits on the memory of the whole QEMU process, enforced by the node.', {
  hardLimit: { ...limit('The maximum that the process may use.'), xml: 'hard_limit' },
  softLimit: { ...limit('The limit under memory pressure.'), xml: 'soft_limit' },
  minGuarantee: { ...limit('The guaranteed minimum.'), xml: 'min_guarantee' },
  swapHardLimit: {
    ...limit('The maximum of memory and swap together; at least the hard limit.'),
    xml: 'swap_hard_limit',
  },
})
