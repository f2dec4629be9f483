import type { Cause } from './cause.ts'
import { dnsLabelRule, dnsSubdomainRule, isDnsLabel, isDnsSubdomain } from './label.ts'
import { quantityValue } from './quantity.ts'
import { boolean, list, open, quantity, string, union, type SchemasOf } from './schema.ts'

/** A named source of data for disks, in Kubernetes' terms; exactly one kind is set. */
export interface Volume {
  readonly name: string
  /** A raw disk that is created empty with the pod and deleted with it. `capacity` is a Kubernetes quantity. */
  readonly emptyDisk?: { readonly capacity: string }
  readonly persistentVolumeClaim?: { readonly claimName: string; readonly readOnly?: boolean }
  /** A NoCloud ISO, label `cidata`. */
  readonly cloudInit?: { readonly userData?: string; readonly metaData?: string; readonly networkData?: string }
}

/** In characters. The limits of clouds range from 16 to 256 KiB. */
const file = { maxLength: 262_144 }

/**
 * A new kind needs a field of `Volume`, and support in the pod and the launcher. Presets and validation follow from the
 * schema.
 */
const kinds = {
  emptyDisk: open(
    'A raw disk that is created empty with the pod and deleted with it.',
    { capacity: quantity('The size as a quantity, e.g. 1Gi.') } satisfies SchemasOf<Required<Volume>['emptyDisk']>,
    ['capacity'],
  ),
  persistentVolumeClaim: open(
    'A claim in the namespace of the VM; a block volume is the disk, a file system contains it as disk.img.',
    {
      claimName: string('The name of the PersistentVolumeClaim.'),
      readOnly: boolean('Whether the disk is read-only.'),
    } satisfies SchemasOf<Required<Volume>['persistentVolumeClaim']>,
    ['claimName'],
  ),
  cloudInit: open('A NoCloud image (an ISO with the label cidata) for cloud-init in the guest.', {
    userData: string('The file user-data, e.g. beginning with `#cloud-config`.', file),
    metaData: string('The file meta-data. If absent: instance-id and local-hostname of the VM.', file),
    networkData: string('The file network-config.', file),
  } satisfies SchemasOf<Required<Volume>['cloudInit']>),
} satisfies SchemasOf<Omit<Volume, 'name'>>

export const volumes = list(
  "Sources of data for disks, in Kubernetes' terms. A disk uses one with `type: volume, source: {volume: NAME}`.",
  union(
    'A named source of data. Exactly one kind must be set beside the name.',
    { name: string('The unique name by which disks refer to the volume.') },
    kinds,
    ['name'],
  ),
  { 'x-kubernetes-list-type': 'map', 'x-kubernetes-list-map-keys': ['name'] },
)

const kindNames = Object.keys(kinds)

/** Checks volumes that match their schema, each by itself. The rules of completion check whether disks use them. */
export function checkVolumes(given: readonly Volume[], field: string): Cause[] {
  return given.flatMap((volume, index) => checkVolume(volume, `${field}[${index}]`))
}

function checkVolume(volume: Volume, field: string): Cause[] {
  const causes = checkKind(volume, field)
  const { name, emptyDisk, persistentVolumeClaim } = volume
  if (!isDnsLabel(name)) {
    causes.push({
      rule: 'volume-name',
      field: `${field}.name`,
      value: name,
      reason: 'FieldValueInvalid',
      message: dnsLabelRule,
    })
  }
  if (emptyDisk !== undefined) causes.push(...checkCapacity(emptyDisk.capacity, `${field}.emptyDisk.capacity`))
  if (persistentVolumeClaim !== undefined && !isDnsSubdomain(persistentVolumeClaim.claimName)) {
    causes.push({
      rule: 'claim-name',
      field: `${field}.persistentVolumeClaim.claimName`,
      value: persistentVolumeClaim.claimName,
      reason: 'FieldValueInvalid',
      message: dnsSubdomainRule,
    })
  }
  return causes
}

function checkKind(volume: Volume, field: string): Cause[] {
  const given = kindNames.filter((kind) => Object.hasOwn(volume, kind))
  if (given.length === 0) {
    const message = `must set one of: ${kindNames.join(', ')}`
    return [{ rule: 'volume-kind', field, reason: 'FieldValueRequired', message }]
  }
  const [first, ...others] = given
  return others.map((kind) => ({
    rule: 'volume-kind',
    field: `${field}.${kind}`,
    reason: 'FieldValueForbidden',
    message: `conflicts with ${first}: a volume has one kind`,
  }))
}

function checkCapacity(capacity: string, field: string): Cause[] {
  if ((quantityValue(capacity) ?? 0n) > 0n) return []
  return [
    { rule: 'volume-capacity', field, value: capacity, reason: 'FieldValueInvalid', message: 'must be more than 0' },
  ]
}
