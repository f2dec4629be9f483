import type { Cause } from './cause.ts'
import { checkSchema, list, map, opaque, string } from './schema.ts'
import type { Schema } from './schema.ts'

const strings = (description: string) => map(description, string('The value.'))

/** What we read of an object's metadata. The API server checks all of it before a webhook is asked; a file has only us. */
const metadata: Schema = {
  type: 'object',
  'x-kubernetes-preserve-unknown-fields': true,
  additionalProperties: {},
  properties: {
    name: string('The name.'),
    generateName: string('What a drawn name begins with.'),
    namespace: string('The namespace.'),
    uid: string('The identity.'),
    labels: strings('Labels.'),
    annotations: strings('Annotations.'),
    finalizers: list('Finalizers.', string('A finalizer.')),
    ownerReferences: list('Owners.', opaque('An owner.')),
  },
}

export const checkMetadata = (value: unknown, field: string): Cause[] =>
  value === undefined
    ? [{ rule: 'required', field, reason: 'FieldValueRequired', message: 'must be given' }]
    : checkSchema(metadata, value, field)
