import { macsOf, type MachineSpec } from '../api/machine.ts'
import type { KubeClient } from '../runtime/kube.ts'
import type { Clock } from '../runtime/clock.ts'
import type { Logger } from '../runtime/log.ts'
import { startReflector } from '../runtime/reflector.ts'
import type { Reflector } from '../runtime/reflector.ts'
import { resource, virtualMachines } from '../runtime/resource.ts'
import type { KubeObject, Persisted } from '../runtime/resource.ts'

/** A VM as the cache keeps it: its identity and its MAC addresses. */
export interface KnownMachine extends KubeObject {
  readonly macs?: readonly string[]
  /** As the API server sends it; dropped before the VM is cached. */
  readonly spec?: MachineSpec
}

/** The VMs of the cluster by their MAC addresses: lower case, with colons. */
export function watchMachines(kube: KubeClient, log: Logger, clock: Clock): Reflector<KnownMachine, 'mac'> {
  const { accepts: _, ...of } = virtualMachines
  return startReflector({
    kube,
    resource: resource<KnownMachine>(of),
    log,
    clock,
    isLarge: true,
    transform: pack,
    indexers: { mac: ({ macs = [] }) => macs },
  })
}

/** What the cache keeps of a VM. */
export function pack({ metadata, spec }: Persisted<KnownMachine>): Persisted<KnownMachine> {
  const { name, namespace, uid, resourceVersion } = metadata
  return {
    metadata: { name, uid, resourceVersion, ...(namespace === undefined ? {} : { namespace }) },
    macs: spec === undefined ? [] : macsOf(spec),
  }
}
