import { attribute, child, element, leaf } from '../description.ts'
import { path, uint64 } from '../scalar.ts'
import { line } from '../text.ts'

const host = { reach: 'host' } as const

export const lease = element('A lease of a lock manager of the node, held while the VM runs.', {
  lockspace: leaf(line(255), 'The lock space.', host),
  key: leaf(line(255), 'The lease in it.', host),
  target: child(
    element('Where the lease is stored.', {
      path: attribute(path, 'The file.', host),
      offset: attribute(uint64, 'The offset in bytes.', host),
    }),
    'Where the lease is stored.',
  ),
})
