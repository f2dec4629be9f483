import type { Cause } from '../api/cause.ts'
import type { VirtualMachine } from '../api/machine.ts'
import { group, version } from '../api/object.ts'
import { identityOf } from '../api/template.ts'
import type { Capabilities } from '../api/capabilities.ts'
import { complete, type Completed, type Refused } from '../completion/complete.ts'
import type { NodeCapabilities } from '../completion/nodes.ts'
import { checkReserved, withFinalizer } from '../completion/reserved.ts'
import type { Candidates } from '../presets/candidates.ts'
import type { Surrounding } from './surroundings.ts'

export interface CompletionSettings {
  readonly capabilities: Capabilities | NodeCapabilities
  /** The request's, from which uuid and MACs are drawn as admission draws them. */
  readonly uid: string
  readonly allowHostReach?: boolean
  /** Leaves out reach and rules. */
  readonly skipRules?: boolean
  /** The domain is libvirt's own, from its XML. */
  readonly isStored?: boolean
  /** Paths of what is left out of the VM, since it was wrong by itself. */
  readonly without?: readonly string[]
  /** The VM comes without its provenance in the annotation. */
  readonly skipAnnotation?: boolean
}

/**
 * What admission would make of a VM that is created here and now: the same completion, the same refusals, the finalizer that the stored VM
 * has.
 */
export async function completeAsAdmission(
  machine: VirtualMachine,
  surrounding: Surrounding,
  settings: CompletionSettings,
): Promise<Completed | Refused> {
  const exempt = await surrounding.exempt(machine)
  return completeIn(machine, surrounding, settings, exempt)
}

/** The same where nobody needs to be asked. */
export function completeIn(
  machine: VirtualMachine,
  {
    namespace,
    presets,
    quarantined,
    userInfo,
  }: Omit<Surrounding, 'exempt' | 'presets'> & { readonly presets: Pick<Candidates, 'select'> },
  settings: CompletionSettings,
  exempt?: ReadonlySet<string>,
): Completed | Refused {
  const { uid, ...rest } = settings
  const outcome = complete(machine, {
    ...rest,
    presets,
    quarantined,
    namespace,
    entropy: { uid: identityOf(machine) ?? uid },
    request: requestOf(machine, namespace.name, uid, userInfo),
    ...(exempt === undefined ? {} : { exempt }),
  })
  const reserved: readonly Cause[] = settings.skipRules === true ? [] : checkReserved(machine, undefined)
  if (outcome.outcome === 'refused') return { ...outcome, causes: [...reserved, ...outcome.causes] }
  if (reserved.length > 0) {
    const { audit, participants, warnings } = outcome
    return { outcome: 'refused', causes: reserved, audit, participants, warnings }
  }
  return { ...outcome, machine: withFinalizer(outcome.machine) }
}

/** What conditions see of the request that creates the VM, as far as anybody knows it. */
export function requestOf(machine: VirtualMachine, namespace: string, uid: string, userInfo: unknown) {
  const kind = { group, version, kind: 'VirtualMachine' }
  const resource = { group, version, resource: 'virtualmachines' }
  return {
    uid,
    kind,
    resource,
    requestKind: kind,
    requestResource: resource,
    ...(machine.metadata.name === undefined ? {} : { name: machine.metadata.name }),
    namespace,
    operation: 'CREATE',
    ...(userInfo === undefined ? {} : { userInfo }),
    object: machine,
    oldObject: null,
    dryRun: false,
  }
}
