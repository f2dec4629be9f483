import { macsOf, type MachineSpec } from '../api/machine.ts'
import type { KubeClient } from '../runtime/kube.ts'
import type { Clock } from '../runtime/clock.ts'
import type { Logger } from '../runtime/log.ts'
import { startReflector } from '../runtime/reflector.ts'
import type { Reflector } from '../runtime/reflector.ts'
import { resource, virtualMachines } from '../runtime/resource.ts'
import type { KubeObject, Persisted } from '../runtime/resource.ts'

/** The MAC addresses of the VMs in the cluster. */
export interface Machines {
  /** @param address lower case, with colons */
  withMac(address: string): readonly KnownMachine[]
}

/** A VM as the cache keeps it: its identity and its MAC addresses. */
export interface KnownMachine extends KubeObject {
  readonly macs?: readonly string[]
  /** As the API server sends it; dropped before the VM is cached. */
  readonly spec?: MachineSpec
}

/** For offline use and tests. */
export const noMachines: Machines = { withMac: () => [] }

export function watchMachines(
  kube: KubeClient,
  log: Logger,
  clock: Clock,
): { readonly machines: Machines; readonly reflector: Reflector<KnownMachine, 'mac'> } {
  const { accepts: _, ...of } = virtualMachines
  const reflector = startReflector({
    kube,
    resource: resource<KnownMachine>(of),
    log,
    clock,
    isLarge: true,
    transform: pack,
    indexers: { mac: ({ macs = [] }) => macs },
  })
  return { machines: { withMac: (address) => reflector.store.byIndex('mac', address) }, reflector }
}

/** What the cache keeps of a VM. */
export function pack({ metadata, spec }: Persisted<KnownMachine>): Persisted<KnownMachine> {
  const { name, namespace, uid, resourceVersion } = metadata
  return {
    metadata: { name, uid, resourceVersion, ...(namespace === undefined ? {} : { namespace }) },
    macs: spec === undefined ? [] : macsOf(spec),
  }
}
