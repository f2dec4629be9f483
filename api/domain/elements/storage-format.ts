import { attribute, child, element } from '../description.ts'
import { oneOf } from '../scalar.ts'
import { size } from './size.ts'

/** The image formats that libvirt has a word for; QEMU writes to few of them. */
export const storageFormats = [
  'raw',
  'dir',
  'bochs',
  'cloop',
  'dmg',
  'iso',
  'vpc',
  'vdi',
  'fat',
  'vhd',
  'ploop',
  'cow',
  'qcow',
  'qcow2',
  'qed',
  'vmdk',
  'luks',
] as const

export const metadataCache = element('The cache of the metadata of a qcow2 image.', {
  maxSize: child(
    size('How large it may become.', { absent: 'bytes', to: 'bytes' }),
    'How large it may become; QEMU decides when absent.',
    { xml: 'max_size' },
  ),
})

export const format = element('The format of an image.', {
  type: attribute(oneOf(...storageFormats), 'The format.'),
  metadataCache: child(metadataCache, 'The cache of the metadata.', { xml: 'metadata_cache' }),
})
