import type { Cause, Origin } from '../api/cause.ts'
import { completedByAnnotation, parseMachine } from '../api/machine.ts'
import type { VirtualMachine } from '../api/machine.ts'
import { identityOf } from '../api/template.ts'
import { complete } from '../completion/complete.ts'
import { decodeProvenance } from '../completion/provenance.ts'
import { reach } from '../completion/rules/reach.ts'
import type { Caches } from './caches.ts'

/** Completion with the caches that it needs; the same function that the webhooks ask. */
export interface Engine {
  /** The whole VM, with its provenance in the annotation; or everything that is wrong with it. */
  complete(machine: VirtualMachine): { readonly machine: VirtualMachine } | { readonly causes: readonly Cause[] }
  /**
   * What a VM that says it was completed takes of the host without anybody's grant: empty, unless it was written while the webhooks were
   * away. Its claim is proved anew, as at admission.
   */
  taken(machine: VirtualMachine): readonly Cause[]
  /** The presets that took part in completing a VM, by id; undefined for one that was never completed. */
  presetsOf(machine: VirtualMachine): ReadonlyMap<string, Revision> | undefined
}

/** The hash of a preset's content. */
export type Revision = string

interface CompletionCaches extends Pick<Caches, 'candidates' | 'quarantined' | 'namespace' | 'capabilities'> {
  /**
   * The VMs of the cluster that have a MAC address.
   * @param address lower case, with colons
   */
  withMac(address: string): readonly Pick<VirtualMachine, 'metadata'>[]
}

/**
 * A VM that slipped past admission has had none of its checks: its shape is checked here first. Nobody is exempt from presets, since nobody's
 * right to be was asked for; identities are drawn from the VM's own uid.
 */
export function createEngine(caches: CompletionCaches): Engine {
  const completeNow = (given: VirtualMachine): ReturnType<Engine['complete']> => {
    const parsed = parseMachine(given)
    if ('causes' in parsed) return parsed
    const { namespace = '', name, uid = '' } = given.metadata
    const isGiven = ({ metadata }: Pick<VirtualMachine, 'metadata'>): boolean =>
      metadata.namespace === namespace && metadata.name === name
    const outcome = complete(given, {
      presets: caches.candidates,
      quarantined: caches.quarantined.values(),
      namespace: caches.namespace(namespace),
      capabilities: caches.capabilities(),
      entropy: { uid: identityOf(given) ?? uid },
      isMacTaken: (address) => caches.withMac(address).some((one) => !isGiven(one)),
    })
    return outcome.outcome === 'refused' ? { causes: outcome.causes } : { machine: outcome.machine }
  }
  return {
    complete: completeNow,
    taken(machine) {
      const outcome = completeNow(machine)
      return 'causes' in outcome ? outcome.causes.filter(({ rule }) => rule === reach.id) : []
    },
    presetsOf({ metadata }) {
      const provenance = decodeProvenance(metadata.annotations?.[completedByAnnotation] ?? '')
      if (provenance === undefined) return undefined
      return new Map([...provenance.origins.values()].flatMap(presetOf))
    },
  }
}

function presetOf(origin: Origin): [string, Revision][] {
  if (origin.by !== 'preset') return []
  const { namespace, name, revision } = origin
  return [[namespace === undefined ? name : `${namespace}/${name}`, revision]]
}
