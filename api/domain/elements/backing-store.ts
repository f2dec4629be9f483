import { attribute, child, element, type Child, type Element } from '../description.ts'
import { diskSource, sourceBranches, sourceType } from './disk-source.ts'
import { uint32 } from '../scalar.ts'
import { format } from './storage-format.ts'

const fields = {
  type: sourceType,
  index: attribute(uint32, 'The node of the storage graph, reported by libvirt while the VM runs.', { live: true }),
  format: child(format, 'The format of the image.'),
  source: child(diskSource, 'Where the image is.'),
} as const

/** A chain of backing images; an empty one ends the chain. */
export interface BackingStore extends Element<typeof fields & { readonly backingStore: Child<BackingStore> }> {}

export const backingStore: BackingStore = element(
  'The backing image, which provides the data that the image above does not contain. Empty: no backing image.',
  { ...fields, backingStore: child((): BackingStore => backingStore, 'The backing image of this one.') },
  { union: { by: 'type', owns: ['source'], branches: sourceBranches('source') } },
)
