import type { Cause } from './cause.ts'
import { invalidValue } from './field-error.ts'
import { isDnsLabel, dnsLabelRule, isQualifiedName, keyPrefix, qualifiedNameRule } from './label.ts'
import { isReservedKey } from './reserved.ts'
import { list, open, string, type SchemasOf } from './schema.ts'

/**
 * A device of the node that a device plugin allocates to the launcher pod. It reaches the host as a whole: only a
 * cluster preset can state it.
 */
export interface HostDevice {
  /** The host device of the domain with the alias `ua-NAME` is this device. */
  readonly name: string
  /** The extended resource of the device plugin. */
  readonly resourceName: string
}

export const hostDevices = list(
  'Devices of the node that device plugins allocate to the launcher pod, one for each item. The host device of the domain whose alias is `ua-NAME` gets the address of the device. Only a ClusterVirtualMachinePreset can set them.',
  open(
    'A device.',
    {
      name: string('The unique name. The host device of the domain has it in `alias.name`, after `ua-`.', {
        minLength: 1,
        maxLength: 63,
      }),
      resourceName: string('The extended resource of which the pod requests one more, e.g. `example.com/gpu`.', {
        minLength: 1,
        maxLength: 317,
      }),
    } satisfies SchemasOf<HostDevice>,
    ['name', 'resourceName'],
  ),
  { 'x-kubernetes-list-type': 'map', 'x-kubernetes-list-map-keys': ['name'], maxItems: 32 },
)

/** libvirt keeps only aliases of this form. */
export const aliasOf = ({ name }: Pick<HostDevice, 'name'>): string => `ua-${name}`

/** Checks devices that match their schema. */
export const checkHostDevices = (given: readonly HostDevice[], field: string): Cause[] =>
  given.flatMap(({ name, resourceName }, index) => [
    ...(isDnsLabel(name) ? [] : [invalidValue('host-device-name', `${field}[${index}].name`, name, dnsLabelRule)]),
    ...resourceCauses(resourceName, `${field}[${index}].resourceName`),
  ])

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
  for (const { resourceName } of given) counts.set(resourceName, (counts.get(resourceName) ?? 0) + 1)
  return Object.fromEntries([...counts].map(([name, count]) => [name, `${count}`]))
}
