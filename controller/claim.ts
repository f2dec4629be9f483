import { claimOwnerLabels } from '../api/claim-template.ts'
import { filledAnnotation } from '../api/claim-volume.ts'
import { group, type OwnerReference } from '../api/object.ts'
import { unlessNotFound } from '../runtime/api-error.ts'
import type { KubeClient } from '../runtime/kube.ts'
import type { ObjectRef, Persisted } from '../runtime/resource.ts'
import { pick, slimLabels, slimMetadata } from '../runtime/slim.ts'
import { awaitedSnapshot } from './lost-snapshot.ts'
import { persistentVolumeClaims, type Claim } from './pod.ts'

/**
 * Reads a claim, and keeps what the pods of a VM depend on. A pass has all claims of a VM in memory, and the rest of a
 * claim can have megabytes, such as 60,000 labels.
 */
export async function readClaim(kube: Pick<KubeClient, 'get'>, ref: ObjectRef): Promise<Persisted<Claim> | undefined> {
  const claim = await unlessNotFound(kube.get(persistentVolumeClaims, ref))
  return claim && slimClaim(claim)
}

const isOurs = ({ apiVersion }: OwnerReference): boolean => apiVersion.startsWith(`${group}/`)

/** A claim has one owner of ours. Users can add others. */
const mostOwners = 16

/**
 * Whether it is being deleted, or will be: the garbage collector takes a moment to notice that an owner is gone, whose
 * name an object with another UID has now.
 *
 * @param owners objects that exist, by their names
 */
export const isEnding = (
  { metadata: { deletionTimestamp, ownerReferences = [] } }: Claim,
  owners: readonly Pick<OwnerReference, 'kind' | 'name' | 'uid'>[],
): boolean =>
  deletionTimestamp !== undefined ||
  ownerReferences.some(
    (one) =>
      isOurs(one) && owners.some(({ kind, name, uid }) => kind === one.kind && name === one.name && uid !== one.uid),
  )

/**
 * Whether a VM of the config or group that the claim was created for fills it at its first start: the disk of another VM
 * would be in its way. The storage has filled a claim from a snapshot.
 */
export const awaitsFilling = ({ metadata: { labels = {}, annotations = {} }, spec }: Claim): boolean =>
  claimOwnerLabels.some((label) => labels[label] !== undefined) &&
  annotations[filledAnnotation] === undefined &&
  spec?.dataSource === undefined

function slimClaim({ metadata, spec = {}, status = {} }: Persisted<Claim>): Persisted<Claim> {
  const requested = spec.resources?.requests?.storage
  const provided = status.capacity?.storage
  // Only whether there is a value is read, and users choose its length.
  const isFilled = metadata.annotations?.[filledAnnotation] !== undefined
  const snapshot = awaitedSnapshot({ metadata, spec })
  const ownerReferences = (metadata.ownerReferences ?? []).filter(isOurs).slice(0, mostOwners)
  return {
    metadata: {
      ...slimMetadata(metadata, 'creationTimestamp', 'deletionTimestamp'),
      ...(isFilled ? { annotations: { [filledAnnotation]: '' } } : {}),
      ...slimLabels(metadata, ...claimOwnerLabels),
      ...(ownerReferences.length === 0 ? {} : { ownerReferences }),
    },
    spec: {
      ...pick(spec, 'volumeMode'),
      ...(spec.dataSource === undefined
        ? {}
        : {
            dataSource: pick(
              spec.dataSource,
              'kind',
              ...(snapshot === undefined ? [] : (['apiGroup', 'name'] as const)),
            ),
          }),
      ...(requested === undefined ? {} : { resources: { requests: { storage: requested } } }),
    },
    status: provided === undefined ? {} : { capacity: { storage: provided } },
  }
}
