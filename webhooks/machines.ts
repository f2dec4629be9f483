import { deflateRawSync, inflateRawSync } from 'node:zlib'
import { macsOf, parseMachine, type MachineSpec, type VirtualMachine } from '../api/machine.ts'
import { apiVersion } from '../api/object.ts'
import { asWritten } from '../completion/impact.ts'
import type { KubeClient } from '../runtime/kube.ts'
import type { Clock } from '../runtime/clock.ts'
import type { Logger } from '../runtime/log.ts'
import { startReflector } from '../runtime/reflector.ts'
import type { Reflector } from '../runtime/reflector.ts'
import { resource, virtualMachines } from '../runtime/resource.ts'
import type { KubeObject, Persisted } from '../runtime/resource.ts'

/** The VMs that there are, as far as reviews of others ask for them. */
export interface Machines {
  list(): readonly KnownMachine[]
  /** @param address lower case, with colons */
  withMac(address: string): readonly KnownMachine[]
}

/** A VM as it is kept: who it is, and what its user wrote, as text: of 10,000 VMs of 8 KiB some 30 MB remain. */
export interface KnownMachine extends KubeObject {
  readonly macs?: readonly string[]
  /** JSON. */
  readonly written?: string
  /** The same where it is long, deflated; bytes as characters, since what a store keeps is frozen and bytes cannot be. */
  readonly deflated?: string
  /** As it comes from the API server; it is not kept. */
  readonly spec?: MachineSpec
}

/** For who knows of none: offline, in tests. */
export const noMachines: Machines = { list: () => [], withMac: () => [] }

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
  const { store } = reflector
  return { machines: { list: () => store.list(), withMac: (address) => store.byIndex('mac', address) }, reflector }
}

/** What is kept of a VM. */
export function pack({ metadata, spec }: Persisted<KnownMachine>): Persisted<KnownMachine> {
  const { name, namespace, uid, resourceVersion, labels } = metadata
  const machine = asWritten({ apiVersion, kind: 'VirtualMachine', metadata, spec: spec ?? { domain: {} } })
  return {
    metadata: {
      name,
      uid,
      resourceVersion,
      ...(namespace === undefined ? {} : { namespace }),
      ...(labels === undefined ? {} : { labels }),
    },
    macs: spec === undefined ? [] : macsOf(spec),
    ...textOf(machine),
  }
}

/** Below, deflating costs more time than memory is saved. */
const longText = 2048

function textOf(machine: VirtualMachine): Pick<KnownMachine, 'written' | 'deflated'> {
  const written = JSON.stringify(machine)
  if (written.length < longText) return { written }
  return { deflated: deflateRawSync(written, { level: 1 }).toString('latin1') }
}

/** The VM as its user wrote it; undefined where it would not be let in today. */
export function unpack({ written, deflated = '' }: KnownMachine): VirtualMachine | undefined {
  const parsed = parseMachine(JSON.parse(written ?? inflateRawSync(Buffer.from(deflated, 'latin1')).toString()))
  return 'machine' in parsed ? parsed.machine : undefined
}
