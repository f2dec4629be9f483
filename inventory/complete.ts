import type { Cause } from '../api/cause.ts'
import type { VirtualMachine } from '../api/virtual-machine.ts'
import { identityOf } from '../api/template.ts'
import { complete, ungrantedReach, type Completed, type CompleteOptions, type Refused } from '../completion/complete.ts'
import type { Inventory } from './inventory.ts'

/** The parts of a create request that completion depends on. */
export interface CreateRequest {
  /** The VM's UUID and MAC addresses are derived from it, unless the VM's owner has set an identity. */
  readonly uid: string
  readonly namespace: string
  /** The AdmissionRequest that conditions see; {} if absent. */
  readonly request?: unknown
  /** IDs of the presets that the user may exempt VMs from; none if absent. */
  readonly exempt?: ReadonlySet<string>
}

type Settings = Pick<
  CompleteOptions,
  'allowHostReach' | 'isStored' | 'onPhase' | 'skipAnnotation' | 'skipRules' | 'without'
>

/** Completes a VM with an inventory. Webhooks, controller and kubectl-vm all complete VMs through this function. */
export const completeWith = (
  inventory: Inventory,
  vm: VirtualMachine,
  request: CreateRequest,
  settings: Settings = {},
): Completed | Refused => complete(vm, { ...settings, ...optionsFrom(inventory, vm, request) })

/** Causes for the values of a stored VM that reach the host without a grant, given an inventory. */
export const ungrantedReachWith = (
  inventory: Inventory,
  vm: VirtualMachine,
  request: CreateRequest,
): readonly Cause[] => ungrantedReach(vm, optionsFrom(inventory, vm, request))

function optionsFrom(
  inventory: Inventory,
  vm: VirtualMachine,
  { uid, namespace, request, exempt }: CreateRequest,
): CompleteOptions {
  const { name } = vm.metadata
  const identity = identityOf(vm)
  return {
    presets: inventory.candidates,
    quarantined: inventory.quarantined.values(),
    namespace: inventory.namespace(namespace),
    capabilities: inventory.capabilities(),
    entropy: identity === undefined ? { uid } : { uid: identity, isFixed: true },
    isMacTaken: (address) => inventory.isMacTaken(address, { namespace, name }),
    ...(request === undefined ? {} : { request }),
    ...(exempt === undefined ? {} : { exempt }),
  }
}
