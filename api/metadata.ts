import type { Cause } from './cause.ts'
import { boolean, bounded, checkSchema, closed, list, map, string } from './schema.ts'
import type { Schema } from './schema.ts'

export const labelsSchema = map('Labels.', string('The value.'))

/** The API server takes 256 KiB for all annotations of an object. */
export const annotationsSchema = map('Annotations.', string('The value.', { maxLength: 262_144 }))

const owner = closed(
  'An owner.',
  {
    apiVersion: string('Its API.'),
    kind: string('Its kind.'),
    name: string('Its name.'),
    uid: string('Its identity.'),
    controller: boolean('Whether it controls the object.'),
    blockOwnerDeletion: boolean('Whether it stays until the object is gone.'),
  },
  ['apiVersion', 'kind', 'name', 'uid'],
)

/**
 * What we read of an object's metadata. The API server checks all of it before a webhook is asked; a file has only us.
 */
const metadata: Schema = bounded({
  type: 'object',
  'x-kubernetes-preserve-unknown-fields': true,
  additionalProperties: {},
  properties: {
    name: string('The name.'),
    generateName: string('What a drawn name begins with.'),
    namespace: string('The namespace.'),
    uid: string('The identity.'),
    labels: labelsSchema,
    annotations: annotationsSchema,
    finalizers: list('Finalizers.', string('A finalizer.')),
    ownerReferences: list('Owners.', owner),
  },
})

export const checkMetadata = (value: unknown, field: string): Cause[] =>
  value === undefined
    ? [{ rule: 'required', field, reason: 'FieldValueRequired', message: 'must be given' }]
    : checkSchema(metadata, value, field)
