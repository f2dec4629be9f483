import type { Cause } from '../api/cause.ts'
import type { VirtualMachine } from '../api/virtual-machine.ts'
import { identityOf } from '../api/template.ts'
import { complete, ungrantedReach, type Completed, type CompleteOptions, type Refused } from '../completion/complete.ts'
import type { Inventory } from './inventory.ts'

/** The request that creates a VM, as far as completion depends on it. */
export interface CreateRequest {
  /** The VM's UUID and MAC addresses are derived from it, unless the VM's owner has set an identity. */
  readonly uid: string
  readonly namespace: string
  /** The AdmissionRequest that conditions see; {} where absent. */
  readonly request?: unknown
  /** Ids of the presets that the user may exempt VMs from; none where absent. */
  readonly exempt?: ReadonlySet<string>
}

type Settings = Pick<
  CompleteOptions,
  'allowHostReach' | 'isStored' | 'onPhase' | 'skipAnnotation' | 'skipRules' | 'without'
>

/** Completes a VM with what an inventory knows. Webhooks, controller and kubectl-vm all complete through here. */
export const completeWith = (
  inventory: Inventory,
  vm: VirtualMachine,
  request: CreateRequest,
  settings: Settings = {},
): Completed | Refused => complete(vm, { ...settings, ...optionsFrom(inventory, vm, request) })

/** What of a stored VM reaches the host without a grant, with what an inventory knows. */
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
  return {
    presets: inventory.candidates,
    quarantined: inventory.quarantined.values(),
    namespace: inventory.namespace(namespace),
    capabilities: inventory.capabilities(),
    entropy: { uid: identityOf(vm) ?? uid },
    isMacTaken: (address) => inventory.isMacTaken(address, { namespace, name }),
    ...(request === undefined ? {} : { request }),
    ...(exempt === undefined ? {} : { exempt }),
  }
}
