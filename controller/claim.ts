import { filledAnnotation } from '../api/claim-volume.ts'
import { unlessNotFound } from '../runtime/api-error.ts'
import type { KubeClient } from '../runtime/kube.ts'
import type { ObjectRef, Persisted } from '../runtime/resource.ts'
import { pick, slimMap, slimMetadata } from '../runtime/slim.ts'
import { persistentVolumeClaims, type Claim } from './pod.ts'

/**
 * Reads a claim, and keeps what the pods of a VM depend on. A pass has all claims of a VM in memory, and the rest of a
 * claim can have megabytes, such as 60,000 labels.
 */
export async function readClaim(kube: Pick<KubeClient, 'get'>, ref: ObjectRef): Promise<Persisted<Claim> | undefined> {
  const claim = await unlessNotFound(kube.get(persistentVolumeClaims, ref))
  return claim && slimClaim(claim)
}

function slimClaim({ metadata, spec = {}, status = {} }: Persisted<Claim>): Persisted<Claim> {
  const requested = spec.resources?.requests?.storage
  const provided = status.capacity?.storage
  return {
    metadata: { ...slimMetadata(metadata), ...slimMap(metadata, 'annotations', filledAnnotation) },
    spec: {
      ...pick(spec, 'volumeMode'),
      ...(requested === undefined ? {} : { resources: { requests: { storage: requested } } }),
    },
    status: provided === undefined ? {} : { capacity: { storage: provided } },
  }
}
