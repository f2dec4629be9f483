import { attribute, child, element } from '../description.ts'
import { oneOf } from '../scalar.ts'
import { size } from './size.ts'

/** The image formats that libvirt has a name for. QEMU can write only a few of them. */
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
    size('The maximum size.', { absent: 'bytes', to: 'bytes' }),
    'The maximum size; QEMU decides if absent.',
    { xml: 'max_size' },
  ),
})

export const format = element('The format of an image.', {
  type: attribute(oneOf(...storageFormats), 'The format.'),
  metadataCache: child(metadataCache, 'The cache of the metadata.', { xml: 'metadata_cache' }),
})
