import type { Domain } from './domain/domain.ts'
import { integerOf } from './domain/scalar-value.ts'
import { list, open, string, type SchemasOf } from './schema.ts'

/** A tap device that a network plugin of the node creates in the launcher pod. */
export interface Tap {
  /** The `target.dev` of its interface. */
  readonly dev: string
  /** The name of the plugin. */
  readonly plugin: string
}

/** The plugin of virtset: the guest has the address of its pod, with every port and protocol. */
export const routedPlugin = 'routed'

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
    } satisfies SchemasOf<Tap>,
    ['dev', 'plugin'],
  ),
  { 'x-kubernetes-list-type': 'map', 'x-kubernetes-list-map-keys': ['dev'], maxItems: 16 },
)

/** A tap and what its interface requires of it. */
export interface UsedTap extends Tap {
  /** Of the interface in the domain. */
  readonly index: number
  readonly mac: string
  readonly queues: number
}

/** The taps of a completed VM that connect an interface. */
export function usedTaps(spec: { readonly domain: Domain; readonly taps?: readonly Tap[] }): UsedTap[] {
  const { domain, taps: given = [] } = spec
  if (given.length === 0) return []
  const plugins = new Map(given.map(({ dev, plugin }) => [dev, plugin]))
  return (domain.devices?.interfaces ?? []).flatMap(({ type, target, mac, driver }, index) => {
    const dev = target?.dev
    const plugin = dev === undefined ? undefined : plugins.get(dev)
    if (type !== 'ethernet' || dev === undefined || plugin === undefined || mac?.address === undefined) return []
    return [{ dev, plugin, index, mac: mac.address.toLowerCase(), queues: Number(integerOf(driver?.queues) ?? 1n) }]
  })
}
