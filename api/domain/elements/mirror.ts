import { backingStore } from './backing-store.ts'
import { attribute, child, element } from '../description.ts'
import { diskSource, sourceBranches, sourceType } from './disk-source.ts'
import { oneOf, path } from '../scalar.ts'
import { format, storageFormats } from './storage-format.ts'

const host = { reach: 'host' } as const

export const mirror = element(
  'Where a running block job copies the disk to. Reported by libvirt; cannot be set.',
  {
    type: sourceType,
    job: attribute(oneOf('copy', 'active-commit'), 'The kind of job.', host),
    ready: attribute(oneOf('yes', 'abort', 'pivot'), 'How far the job is.', host),
    file: attribute(path, 'The copy, in the words of old libvirt.', host),
    oldFormat: attribute(oneOf(...storageFormats), 'Its format, in the words of old libvirt.', {
      xml: 'format',
      reach: 'host',
    }),
    format: child(format, 'The format of the copy.'),
    source: child(diskSource, 'Where the copy is.'),
    backingStore: child(backingStore, 'The image below the copy.'),
  },
  { union: { by: 'type', owns: ['source'], branches: sourceBranches('source') } },
)
