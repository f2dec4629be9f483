import type { Cause } from './cause.ts'
import { invalidValue } from './field-error.ts'
import { checkCapacity } from './capacity.ts'
import { checkClaimVolume, claimVolume, type ClaimVolume } from './claim-volume.ts'
import { checkImageSource, imageSourceFields, type ImageSource } from './image-source.ts'
import { dnsLabelRule, isDnsLabel } from './label.ts'
import {
  checkMountedSources,
  configMapVolume,
  secretKey,
  secretVolume,
  type CloudInit,
  type MountedVolume,
} from './mounted-source.ts'
import { checkKind } from './kind.ts'
import { list, open, quantity, string, union, type SchemasOf } from './schema.ts'

/** A named source of data for disks, in Kubernetes' terms; exactly one kind is set. */
export interface Volume extends MountedVolume {
  readonly name: string
  /** A raw disk that is created empty with the pod and deleted with it. `capacity` is a Kubernetes quantity. */
  readonly emptyDisk?: { readonly capacity: string }
  readonly image?: ImageVolume
  readonly persistentVolumeClaim?: ClaimVolume
}

/** The disk in a container image. What the guest writes goes to a file of the launcher pod and is deleted with it. */
export interface ImageVolume extends ImageSource {
  /** The size of the disk as a quantity. If absent: the size of the disk in the image, up to `largestUnset`. */
  readonly capacity?: string
}

/**
 * The size in bytes that a disk from an image can have without `capacity`. The launcher pod is created before the image
 * is pulled, and its limit on what the guest writes must be above the size of the disk.
 */
export const largestUnset = 16n * 1024n ** 3n

/** In characters. The limits of clouds range from 16 to 256 KiB. */
const file = { maxLength: 262_144 }

/**
 * A new kind needs a field of `Volume`, and support in the pod and the launcher. Presets and validation follow from the
 * schema.
 */
const kinds = {
  emptyDisk: open(
    'A raw disk that is created empty with the pod and deleted with it.',
    { capacity: quantity('The size as a quantity, e.g. 1Gi; the node reserves it.') } satisfies SchemasOf<
      Required<Volume>['emptyDisk']
    >,
    ['capacity'],
  ),
  image: open(
    'A disk in a container image, qcow2 or raw, as KubeVirt has them. The guest can write to it; its changes are deleted with the pod. Requires Kubernetes 1.35.',
    {
      ...imageSourceFields,
      capacity: quantity(
        'The size of the disk as a quantity, not less than in the image; the node reserves it. If absent: the size in the image, which must then be at most 16Gi.',
      ),
    } satisfies SchemasOf<ImageVolume>,
    ['reference'],
  ),
  persistentVolumeClaim: claimVolume,
  cloudInit: open('A NoCloud image (an ISO with the label cidata) for cloud-init in the guest.', {
    userData: string('The file user-data, e.g. beginning with `#cloud-config`.', file),
    userDataSecretRef: secretKey('userData'),
    metaData: string('The file meta-data. If absent: instance-id and local-hostname of the VM.', file),
    networkData: string('The file network-config.', file),
    networkDataSecretRef: secretKey('networkData'),
  } satisfies SchemasOf<CloudInit>),
  configMap: configMapVolume,
  secret: secretVolume,
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
  const causes = checkKind(volume, kindNames, 'volume-kind', field, 'a volume')
  const { name, emptyDisk, image, persistentVolumeClaim } = volume
  if (!isDnsLabel(name)) {
    causes.push(invalidValue('volume-name', `${field}.name`, name, dnsLabelRule))
  }
  causes.push(...checkMountedSources(volume, field))
  if (emptyDisk !== undefined) causes.push(...checkCapacity(emptyDisk.capacity, `${field}.emptyDisk.capacity`))
  if (image !== undefined) causes.push(...checkImage(image, `${field}.image`))
  if (persistentVolumeClaim !== undefined) {
    causes.push(...checkClaimVolume(persistentVolumeClaim, `${field}.persistentVolumeClaim`))
  }
  return causes
}

function checkImage(image: ImageVolume, field: string): Cause[] {
  const { capacity } = image
  const causes = capacity === undefined ? [] : checkCapacity(capacity, `${field}.capacity`)
  return [...causes, ...checkImageSource(image, field)]
}

/** The container image that the pod of the VM mounts for a volume until it has been copied, or always. */
export const imageOf = ({ image, persistentVolumeClaim: claim }: Volume): ImageSource | undefined =>
  image ?? claim?.source?.image

/** The names of the volumes whose disk is in a container image. */
export const imageVolumesOf = (given: readonly Volume[] = []): ReadonlySet<string> =>
  new Set(given.flatMap(({ name, image }) => (image === undefined ? [] : [name])))
