import type { Cause } from '../api/cause.ts'
import type { VirtualMachine } from '../api/virtual-machine.ts'
import { group, version } from '../api/object.ts'
import type { Completed, CompleteOptions, Refused } from '../completion/complete.ts'
import { checkReserved, withFinalizer } from '../completion/reserved.ts'
import { completeWith } from '../inventory/complete.ts'
import type { Scope } from './scope.ts'

export interface CompletionSettings extends Pick<
  CompleteOptions,
  'allowHostReach' | 'isStored' | 'skipAnnotation' | 'skipRules' | 'without'
> {
  /** The UID of the request, from which the UUID and MAC addresses are derived as in admission. */
  readonly uid: string
}

/** The result of admission if the user created the VM now: the same completion, refusals and finalizer. */
export async function completeAsAdmission(
  vm: VirtualMachine,
  namespace: string,
  scope: Scope,
  settings: CompletionSettings,
): Promise<Completed | Refused> {
  return completeIn(vm, namespace, scope, settings, await scope.exempt(vm))
}

/** Like `completeAsAdmission`, if no exemption has to be authorized. */
export function completeIn(
  vm: VirtualMachine,
  namespace: string,
  { inventory, userInfo }: Pick<Scope, 'inventory' | 'userInfo'>,
  { uid, ...settings }: CompletionSettings,
  exempt?: ReadonlySet<string>,
): Completed | Refused {
  const request = { uid, namespace, request: requestOf(vm, namespace, uid, userInfo) }
  const outcome = completeWith(inventory, vm, { ...request, ...(exempt === undefined ? {} : { exempt }) }, settings)
  const reserved: readonly Cause[] = settings.skipRules === true ? [] : checkReserved(vm, undefined)
  if (outcome.outcome === 'refused') return { ...outcome, causes: [...reserved, ...outcome.causes] }
  if (reserved.length > 0) {
    const { audit, participants, warnings } = outcome
    return { outcome: 'refused', causes: reserved, audit, participants, warnings }
  }
  return { ...outcome, vm: withFinalizer(outcome.vm) }
}

/** The request that creates the VM, as conditions see it, with the members that are known. */
export function requestOf(vm: VirtualMachine, namespace: string, uid: string, userInfo: unknown) {
  const kind = { group, version, kind: 'VirtualMachine' }
  const resource = { group, version, resource: 'virtualmachines' }
  return {
    uid,
    kind,
    resource,
    requestKind: kind,
    requestResource: resource,
    ...(vm.metadata.name === undefined ? {} : { name: vm.metadata.name }),
    namespace,
    operation: 'CREATE',
    ...(userInfo === undefined ? {} : { userInfo }),
    object: vm,
    oldObject: null,
    dryRun: false,
  }
}
