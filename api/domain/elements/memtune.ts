import { child, element } from '../description.ts'
import { kibibytes } from './size.ts'

const limit = (description: string) => child(kibibytes(description, { reach: 'host' }), description, { reach: 'host' })

/** Limits of the QEMU process in the cgroup of the node; the pod's own resources are the usual way. */
export const memtune = element('Limits on the memory of the whole QEMU process, enforced by the node.', {
  hardLimit: { ...limit('The most that the process may use.'), xml: 'hard_limit' },
  softLimit: { ...limit('What is enforced when memory is short.'), xml: 'soft_limit' },
  minGuarantee: { ...limit('The least that is guaranteed.'), xml: 'min_guarantee' },
  swapHardLimit: {
    ...limit('The most of memory and swap together; no less than the hard limit.'),
    xml: 'swap_hard_limit',
  },
})
