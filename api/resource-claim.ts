import type { Cause } from './cause.ts'
import { invalidValue } from './field-error.ts'
import { checkKind } from './kind.ts'
import { dnsLabelRule, dnsSubdomainRule, isDnsLabel, isDnsSubdomain } from './label.ts'
import { list, string, union, type SchemasOf } from './schema.ts'

/**
 * A claim of Dynamic Resource Allocation for the launcher pod, as in a pod; exactly one of `resourceClaimName` and
 * `resourceClaimTemplateName` is set. It reaches the host as a whole: only a cluster preset can state it.
 */
export interface ResourceClaim {
  readonly name: string
  readonly resourceClaimName?: string
  readonly resourceClaimTemplateName?: string
}

const subdomain = { minLength: 1, maxLength: 253 }

const kinds = {
  resourceClaimName: string('A ResourceClaim in the namespace of the VM.', subdomain),
  resourceClaimTemplateName: string(
    'A ResourceClaimTemplate in the namespace of the VM. Kubernetes creates a claim from it that is deleted with the pod.',
    subdomain,
  ),
} satisfies SchemasOf<Omit<ResourceClaim, 'name'>>

export const resourceClaims = list(
  'Claims of Dynamic Resource Allocation for the launcher pod, as in the spec of a pod. The `claim` of `hostDevices` refers to them. Only a ClusterVirtualMachinePreset can set them. Requires Kubernetes 1.34.',
  union(
    'A claim. Exactly one of `resourceClaimName` and `resourceClaimTemplateName` must be set beside the name.',
    { name: string('The unique name, by which host devices refer to the claim.', { minLength: 1, maxLength: 63 }) },
    kinds,
    ['name'],
  ),
  { 'x-kubernetes-list-type': 'map', 'x-kubernetes-list-map-keys': ['name'], maxItems: 32 },
)

/** Checks claims that match their schema. */
export const checkResourceClaims = (given: readonly ResourceClaim[], field: string): Cause[] =>
  given.flatMap((claim, index) => checkResourceClaim(claim, `${field}[${index}]`))

function checkResourceClaim({ name, ...source }: ResourceClaim, field: string): Cause[] {
  const causes = checkKind(source, Object.keys(kinds), 'resource-claim-kind', field, 'a claim')
  if (!isDnsLabel(name)) causes.push(invalidValue('resource-claim-name', `${field}.name`, name, dnsLabelRule))
  for (const [key, value] of Object.entries(source)) {
    if (isDnsSubdomain(value)) continue
    causes.push(invalidValue('resource-claim-source', `${field}.${key}`, value, dnsSubdomainRule))
  }
  return causes
}
