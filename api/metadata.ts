import type { Cause } from './cause.ts'
import { requiredField } from './field-error.ts'
import { boolean, bounded, checkSchema, closed, list, map, string } from './schema.ts'
import type { Schema } from './schema.ts'

export const labelsSchema = map('Labels.', string('The value.'))

/** The API server allows this much for all annotations of an object. */
export const maxAnnotationsBytes = 256 * 1024

export const annotationsSchema = map('Annotations.', string('The value.', { maxLength: maxAnnotationsBytes }))

const owner = closed(
  'An owner.',
  {
    apiVersion: string('Its API.'),
    kind: string('Its kind.'),
    name: string('Its name.'),
    uid: string('Its identity.'),
    controller: boolean('Whether it controls the object.'),
    blockOwnerDeletion: boolean('Whether the owner cannot be deleted before the object.'),
  },
  ['apiVersion', 'kind', 'name', 'uid'],
)

/**
 * The part of an object's metadata that virtset reads. The API server has validated it before it calls a webhook, but
 * for a file this is the only check.
 */
const metadata: Schema = bounded({
  type: 'object',
  'x-kubernetes-preserve-unknown-fields': true,
  additionalProperties: {},
  properties: {
    name: string('The name.'),
    generateName: string('The prefix of a generated name.'),
    namespace: string('The namespace.'),
    uid: string('The identity.'),
    labels: labelsSchema,
    annotations: annotationsSchema,
    finalizers: list('Finalizers.', string('A finalizer.')),
    ownerReferences: list('Owners.', owner),
  },
})

export const checkMetadata = (value: unknown, field: string): Cause[] =>
  value === undefined ? [requiredField(field)] : checkSchema(metadata, value, field)
