import { backingStore } from './backing-store.ts'
import { attribute, child, element } from '../description.ts'
import { diskSource, sourceBranches, sourceType } from './disk-source.ts'
import { oneOf, path } from '../scalar.ts'
import { format, storageFormats } from './storage-format.ts'

const host = { reach: 'host' } as const

export const mirror = element(
  'The destination of a running block job. Reported by libvirt; cannot be set.',
  {
    type: sourceType,
    job: attribute(oneOf('copy', 'active-commit'), 'The kind of job.', host),
    ready: attribute(oneOf('yes', 'abort', 'pivot'), 'The progress of the job.', host),
    file: attribute(path, 'The copy, in the form of older libvirt.', host),
    oldFormat: attribute(oneOf(...storageFormats), 'Its format, in the form of older libvirt.', {
      xml: 'format',
      reach: 'host',
    }),
    format: child(format, 'The format of the copy.'),
    source: child(diskSource, 'The location of the copy.'),
    backingStore: child(backingStore, 'The backing image of the copy.'),
  },
  { union: { by: 'type', owns: ['source'], branches: sourceBranches('source') } },
)
