import { attribute, child, element, leaf } from './description.ts'
import { path, text, uint64 } from './scalar.ts'

const host = { reach: 'host' } as const

export const lease = element('A lease of a lock manager of the node, held while the VM runs.', {
  lockspace: leaf(text(), 'The lock space.', host),
  key: leaf(text(), 'The lease in it.', host),
  target: child(
    element('Where the lease is kept.', {
      path: attribute(path, 'The file.', host),
      offset: attribute(uint64, 'Where it begins, in bytes.', host),
    }),
    'Where the lease is kept.',
  ),
})
