import type { Cause } from './cause.ts'
import { invalidValue } from './field-error.ts'
import { checkHttpSource, httpSourceFields, type HttpSource } from './http-source.ts'
import { checkImageSource, imageSourceFields, type ImageSource } from './image-source.ts'
import { dnsSubdomainRule, isDnsSubdomain } from './label.ts'
import { checkCapacity } from './capacity.ts'
import { boolean, open, quantity, string, union, type SchemasOf } from './schema.ts'

/** A disk in a claim: the device of a block volume, or `disk.img` in a file system. */
export interface ClaimVolume {
  readonly claimName: string
  readonly readOnly?: boolean
  /** The size of `disk.img` as a quantity, to which it grows at each start. */
  readonly capacity?: string
  /** What the disk is made from when the claim has none. */
  readonly source?: ClaimSource
}

/** Exactly one is set. */
export interface ClaimSource {
  readonly empty?: object
  readonly image?: ImageSource
  readonly claim?: { readonly claimName: string }
  readonly http?: HttpSource
}

/** On a claim, once a VM has run with the disk that it was filled with: the claim is never filled again. */
export const filledAnnotation = 'virtset.io/filled'

/** What a qcow2 file can have besides the data of its disk. */
const qcow2SlackBytes = 64n * 1024n * 1024n

/** The largest file that a disk is downloaded as. @param bytes the largest size of the disk */
export const downloadBytes = (bytes: bigint): bigint => bytes + bytes / 16n + qcow2SlackBytes

/** In the pod, the name of the device of a block volume that is copied. No volume has such a name. */
export const sourceDeviceName = (volume: string): string => `${volume}.source`

export const sourceKinds = {
  empty: open('A disk without data. A block volume is used as it is.', {}),
  image: open(
    'A copy of the disk in a container image, qcow2 or raw. Requires Kubernetes 1.35 until the claim is filled.',
    imageSourceFields,
    ['reference'],
  ),
  claim: open(
    'A copy of the disk in another claim of the namespace, which no running VM can be writing to.',
    { claimName: string('The name of the PersistentVolumeClaim.') },
    ['claimName'],
  ),
  http: open('A copy of the disk on a web server, qcow2 or raw.', httpSourceFields, ['url', 'checksum']),
} satisfies SchemasOf<ClaimSource>

const claimSource = union(
  'What the disk is made from, once, when the claim has no disk: a file system without disk.img, or a block volume whose first MiB is zero. Exactly one kind must be set.',
  {},
  sourceKinds,
)

export const claimVolume = open(
  'A claim in the namespace of the VM; a block volume is the disk, a file system contains it as disk.img.',
  {
    claimName: string('The name of the PersistentVolumeClaim.'),
    readOnly: boolean('Whether the disk is read-only.'),
    capacity: quantity(
      'The size of disk.img, e.g. 20Gi, as far as the file system has room. A smaller one grows, also while the VM runs. If absent: the size of the source.',
    ),
    source: claimSource,
  } satisfies SchemasOf<ClaimVolume>,
  ['claimName'],
)

/** Checks a claim that matches its schema. */
export function checkClaimVolume({ claimName, readOnly, capacity, source }: ClaimVolume, field: string): Cause[] {
  const causes = checkClaimName(claimName, `${field}.claimName`)
  if (capacity !== undefined) causes.push(...checkCapacity(capacity, `${field}.capacity`))
  if (source === undefined) return causes
  causes.push(...checkClaimSource(source, `${field}.source`))
  const required = (at: string, message: string): Cause => ({
    rule: 'claim-source',
    field: at,
    reason: 'FieldValueRequired',
    message,
  })
  if (source.empty !== undefined && capacity === undefined) {
    causes.push(required(`${field}.capacity`, 'must be given: an empty disk has no other size'))
  }
  if (readOnly === true) {
    const message = 'conflicts with source: a claim that is read-only cannot be filled'
    causes.push({ rule: 'claim-source', field: `${field}.readOnly`, reason: 'FieldValueForbidden', message })
  }
  if (source.claim?.claimName === claimName) {
    causes.push(invalidValue('claim-source', `${field}.source.claim.claimName`, claimName, 'must be another claim'))
  }
  return causes
}

/** Checks a source that matches its schema. @param more kinds of sources beside those of a volume */
export function checkClaimSource(source: ClaimSource, field: string, more: readonly string[] = []): Cause[] {
  const kinds = [...Object.keys(sourceKinds), ...more]
  const [first, ...others] = kinds.filter((kind) => Object.hasOwn(source, kind))
  if (first === undefined) {
    const message = `must set one of: ${kinds.join(', ')}`
    return [{ rule: 'claim-source', field, reason: 'FieldValueRequired', message }]
  }
  const { image, claim, http } = source
  return [
    ...others.map((kind): Cause => ({
      rule: 'claim-source',
      field: `${field}.${kind}`,
      reason: 'FieldValueForbidden',
      message: `conflicts with ${first}: a claim has one source`,
    })),
    ...(image === undefined ? [] : checkImageSource(image, `${field}.image`)),
    ...(claim === undefined ? [] : checkClaimName(claim.claimName, `${field}.claim.claimName`)),
    ...(http === undefined ? [] : checkHttpSource(http, `${field}.http`)),
  ]
}

const checkClaimName = (name: string, field: string): Cause[] =>
  isDnsSubdomain(name) ? [] : [invalidValue('claim-name', field, name, dnsSubdomainRule)]
