import type { VirtualMachineStatus } from '../api/virtual-machine.ts'
import type { CommonAction } from './action.ts'
import type { Pod } from './pod.ts'
import type { LauncherPod, Vm } from './vm-observed.ts'
import { isChanged } from './vm-status.ts'

export type Action =
  | CommonAction<VirtualMachineStatus>
  /** Store the completed spec, provenance and finalizer. */
  | { readonly do: 'completeSpec'; readonly vm: Vm }
  | { readonly do: 'addFinalizer' }
  | { readonly do: 'removeFinalizer' }
  | { readonly do: 'createPod'; readonly pod: Pod }
  /** Mark the VM's claims with a source as filled. */
  | { readonly do: 'markFilled' }
  /** Give the pod the labels that its VM has now. */
  | { readonly do: 'relabelPod'; readonly pod: LauncherPod }
  | { readonly do: 'deletePod'; readonly pod: LauncherPod }
  /** Delete a pod that the VM has not been handed to. Another is created later. */
  | { readonly do: 'replacePod'; readonly pod: LauncherPod; readonly createAfterMs: number }

/** Writes a status unless it is the current one. */
export function writeStatus(vm: Vm, status: VirtualMachineStatus): Action[] {
  return isChanged(vm, status) ? [{ do: 'updateStatus', status }] : []
}
