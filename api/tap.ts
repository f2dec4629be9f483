import type { Domain } from './domain/domain.ts'
import { integerOf } from './domain/scalar-value.ts'
import { list, open, string, type SchemasOf } from './schema.ts'

/** A tap device that a network plugin of the node creates in the launcher pod. */
export interface Tap {
  /** The `target.dev` of its interface. */
  readonly dev: string
  /** The name of the plugin. */
  readonly plugin: string
  /** The network that the plugin connects it to: NAME, or NAMESPACE/NAME. That of the pod if absent. */
  readonly network?: string
}

/** A plugin of virtset: the guest has the address of its pod, with every port and protocol. */
export const routedPlugin = 'routed'
/** A plugin of virtset: the guest has a private address behind that of its pod. */
export const natPlugin = 'nat'
/** A plugin of virtset: the guest is a host of another network of the pod. */
export const redirectPlugin = 'redirect'

/** Of which one interface of a VM can have one, since a pod has one address. */
export const podPlugins: readonly string[] = [routedPlugin, natPlugin]
export const builtInPlugins: readonly string[] = [...podPlugins, redirectPlugin]

/** Whether the plugin can reach more than the network of the pod, or the network belongs to another namespace. */
export const isForeign = ({ plugin, network }: Tap): boolean =>
  !builtInPlugins.includes(plugin) || network?.includes('/') === true

const label = '[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?'

export const taps = list(
  'Tap devices that network plugins of the node create in the launcher pod. Each connects the interface of type ethernet whose `target.dev` it is; without such an interface it is not created.',
  open(
    'A tap device.',
    {
      dev: string('The name of the device, which the `target.dev` of an interface refers to.', {
        pattern: '^tap[0-9a-z]{1,12}$',
      }),
      plugin: string('The name of the network plugin, such as `routed`.', {
        minLength: 1,
        maxLength: 63,
        pattern: '^[a-z0-9]([-a-z0-9]*[a-z0-9])?$',
      }),
      network: string(
        'The network that the tap is connected to, as a NetworkAttachmentDefinition: its name in the namespace of the VM or, with a grant, NAMESPACE/NAME. The network of the pod if absent.',
        { minLength: 1, maxLength: 253, pattern: `^(${label}/)?${label}(\\.${label})*$` },
      ),
    } satisfies SchemasOf<Tap>,
    ['dev', 'plugin'],
  ),
  { 'x-kubernetes-list-type': 'map', 'x-kubernetes-list-map-keys': ['dev'], maxItems: 16 },
)

/** The NetworkAttachmentDefinition that a VM in this namespace means. */
export function networkRef(network: string, ofVm = 'default'): { readonly namespace: string; readonly name: string } {
  const [first = '', second] = network.split('/')
  return second === undefined ? { namespace: ofVm, name: first } : { namespace: first, name: second }
}

/** A tap and what its interface requires of it. */
export interface UsedTap extends Tap {
  /** Of the interface in the domain. */
  readonly index: number
  readonly mac: string
  readonly queues: number
  /** The interface of the pod in the network of the tap; absent without one. */
  readonly podInterface?: string
}

/** The interface of the pod in the network of a tap: net1 for tap1. */
export const podInterfaceOf = (dev: string): string => dev.replace(/^tap/, 'net')

/** The taps of a completed VM that connect an interface. */
export function usedTaps(spec: { readonly domain: Domain; readonly taps?: readonly Tap[] }): UsedTap[] {
  const { domain, taps: given = [] } = spec
  if (given.length === 0) return []
  const known = new Map(given.map((tap) => [tap.dev, tap]))
  return (domain.devices?.interfaces ?? []).flatMap(({ type, target, mac, driver }, index) => {
    const tap = known.get(target?.dev ?? '')
    if (type !== 'ethernet' || tap === undefined || mac?.address === undefined) return []
    const podInterface = tap.network === undefined ? {} : { podInterface: podInterfaceOf(tap.dev) }
    const queues = Number(integerOf(driver?.queues) ?? 1n)
    return [{ ...tap, index, mac: mac.address.toLowerCase(), queues, ...podInterface }]
  })
}
