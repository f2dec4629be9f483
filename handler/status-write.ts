import { isFinished, type VirtualMachineStatus } from '../api/virtual-machine.ts'
import { unchanged, type Persisted } from '../runtime/resource.ts'
import { statusPatch } from '../runtime/status-patch.ts'
import { countValues } from './domain-size.ts'
import type { CachedVm } from './slim-vm.ts'

/**
 * An update of the status of a VM, as it is sent. The status itself takes up to ten times the memory of its bytes, and
 * an update can wait long for the API server.
 */
export interface StatusWrite {
  /** JSON Patch operations, which fail if the VM has changed. */
  readonly body: Buffer
  /** How many the new status has. */
  readonly values: number
  /** The VM ends with it. */
  readonly isFinal: boolean
}

export const statusWriteOf = (vm: Persisted<CachedVm>, status: VirtualMachineStatus): StatusWrite => ({
  body: Buffer.from(JSON.stringify([...unchanged(vm), ...statusPatch(vm, status)])),
  values: countValues(status),
  isFinal: isFinished({ status }),
})
