import type { Cause } from './cause.ts'
import { invalidValue } from './field-error.ts'
import { imageReferenceRule, isImageReference } from './image-reference.ts'
import { string, type SchemasOf } from './schema.ts'

/** A disk in a container image. */
export interface ImageSource {
  readonly reference: string
  /** As for the image of a container: Always for the tag `latest`, otherwise IfNotPresent. */
  readonly pullPolicy?: 'Always' | 'IfNotPresent' | 'Never'
  /** The path of the disk in the image. If absent: the only file in the folder `disk`. */
  readonly path?: string
}

export const imageSourceFields = {
  reference: string('The container image, e.g. quay.io/containerdisks/debian:13; with a digest it never changes.', {
    minLength: 1,
  }),
  pullPolicy: string(
    'When the image is pulled: Always, IfNotPresent or Never. If absent: Always for the tag latest, otherwise IfNotPresent.',
    { enum: ['Always', 'IfNotPresent', 'Never'] },
  ),
  path: string('The path of the disk in the image. If absent: the only file in the folder disk.', { minLength: 1 }),
} satisfies SchemasOf<ImageSource>

export function checkImageSource({ reference, path }: ImageSource, field: string): Cause[] {
  const causes: Cause[] = []
  if (!isImageReference(reference)) {
    causes.push(invalidValue('image-reference', `${field}.reference`, reference, imageReferenceRule))
  }
  if (path !== undefined && !isPathInImage(path)) {
    const message = 'must be the path of a file in the image, without empty parts, `.` and `..`, e.g. disk/disk.qcow2'
    causes.push(invalidValue('image-path', `${field}.path`, path, message))
  }
  return causes
}

/** Whether `path` names a file in an image: printable, and without parts that lead elsewhere. */
export const isPathInImage = (path: string): boolean =>
  path
    .replace(/^\//, '')
    .split('/')
    .every((part) => part !== '.' && part !== '..' && /^\P{C}+$/u.test(part))

/** The image as a volume of a pod. */
export const imageOfPod = ({ reference, pullPolicy }: ImageSource) => ({
  reference,
  ...(pullPolicy === undefined ? {} : { pullPolicy }),
})
