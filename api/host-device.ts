import type { Cause } from './cause.ts'
import { invalidValue } from './field-error.ts'
import { checkKind } from './kind.ts'
import { isDnsLabel, dnsLabelRule, isQualifiedName, keyPrefix, qualifiedNameRule } from './label.ts'
import { isReservedKey } from './reserved.ts'
import { list, open, string, union, type SchemasOf } from './schema.ts'

/**
 * A device of the node that a device plugin or a DRA driver allocates to the launcher pod; exactly one of `resourceName`
 * and `claim` is set. It reaches the host as a whole: only a cluster preset can state it.
 */
export interface HostDevice {
  /** The host device of the domain with the alias `ua-NAME` is this device. */
  readonly name: string
  /** The extended resource of the device plugin. */
  readonly resourceName?: string
  readonly claim?: DeviceRequest
}

/** A request of one of `resourceClaims`, in Kubernetes' terms. */
export interface DeviceRequest {
  readonly name: string
  readonly request: string
}

const label = { minLength: 1, maxLength: 63 }

const kinds = {
  resourceName: string('The extended resource of which the pod requests one more, e.g. `example.com/gpu`.', {
    minLength: 1,
    maxLength: 317,
  }),
  claim: open(
    'The first device of a request in a claim.',
    {
      name: string('The name of the claim in `resourceClaims`.', label),
      request: string('The name of the request in the claim.', label),
    } satisfies SchemasOf<DeviceRequest>,
    ['name', 'request'],
  ),
} satisfies SchemasOf<Omit<HostDevice, 'name'>>

export const hostDevices = list(
  'Devices of the node that device plugins or DRA drivers allocate to the launcher pod, one for each item. The host device of the domain whose alias is `ua-NAME` gets the address of the device. Only a ClusterVirtualMachinePreset can set them.',
  union(
    'A device. Exactly one of `resourceName` and `claim` must be set beside the name.',
    {
      name: string('The unique name. The host device of the domain has it in `alias.name`, after `ua-`.', label),
    },
    kinds,
    ['name'],
  ),
  { 'x-kubernetes-list-type': 'map', 'x-kubernetes-list-map-keys': ['name'], maxItems: 32 },
)

/** libvirt keeps only aliases of this form. */
export const aliasOf = ({ name }: Pick<HostDevice, 'name'>): string => `ua-${name}`

/** Checks devices that match their schema. */
export const checkHostDevices = (given: readonly HostDevice[], field: string): Cause[] =>
  given.flatMap((device, index) => checkHostDevice(device, `${field}[${index}]`))

function checkHostDevice(device: HostDevice, field: string): Cause[] {
  const { name, resourceName, claim } = device
  const causes = checkKind(device, Object.keys(kinds), 'host-device-kind', field, 'a device')
  if (!isDnsLabel(name)) causes.push(invalidValue('host-device-name', `${field}.name`, name, dnsLabelRule))
  if (resourceName !== undefined) causes.push(...resourceCauses(resourceName, `${field}.resourceName`))
  for (const [key, value] of Object.entries(claim ?? {})) {
    // The launcher finds the device by both, as names of directories.
    if (!isDnsLabel(value)) causes.push(invalidValue('host-device-claim', `${field}.claim.${key}`, value, dnsLabelRule))
  }
  return causes
}

/** Kubernetes' rule for extended resources. Those of virtset are requested as the domain needs them. */
function resourceCauses(name: string, field: string): Cause[] {
  const wrong = (message: string) => [invalidValue('host-device-resource', field, name, message)]
  if (!isQualifiedName(name)) return wrong(qualifiedNameRule)
  const domain = keyPrefix(name)
  if (domain === '') return wrong('must have the domain of its device plugin, e.g. example.com/gpu')
  if (/(^|\.)kubernetes\.io$/.test(domain) || domain.startsWith('requests.')) {
    return wrong('must be an extended resource: not of kubernetes.io, and without the prefix requests.')
  }
  return isReservedKey(name) ? wrong('must not be a resource of virtset itself') : []
}

/** How many of each resource the pod requests. */
export function hostDeviceResources(given: readonly HostDevice[]): Readonly<Record<string, string>> {
  const counts = new Map<string, number>()
  for (const { resourceName } of given) {
    if (resourceName !== undefined) counts.set(resourceName, (counts.get(resourceName) ?? 0) + 1)
  }
  return Object.fromEntries([...counts].map(([name, count]) => [name, `${count}`]))
}
