import { isFinished, type FreezeState, type VirtualMachineStatus } from '../api/virtual-machine.ts'
import { unchanged, type Persisted } from '../runtime/resource.ts'
import { statusPatch } from '../runtime/status-patch.ts'
import { countValues } from './domain-size.ts'
import { bytesPerValue, type CachedVm } from './slim-vm.ts'

/** What an update of the status of a VM costs, known before its bytes are made: most rounds of a large one have no turn. */
export interface UpdateCost {
  /** About as many are sent. */
  readonly bytes: number
  /** How many the new status has. */
  readonly values: number
  /** As `CachedVm.weight`, of any VM. The first report of its launcher can be larger than the VM is. */
  readonly weight: number
  readonly isAwaited: boolean
}

/**
 * An update as it is sent. The status itself takes up to ten times the memory of its bytes, and an update can wait long
 * for the API server.
 */
export interface StatusWrite extends UpdateCost {
  /** JSON Patch operations, which fail if the VM has changed. */
  readonly body: Buffer
}

export function costOfUpdate(vm: Persisted<CachedVm>, status: VirtualMachineStatus): UpdateCost {
  const bytes = countBytes(status)
  const values = countValues(status)
  const weight = Math.max(vm.weight ?? 0, bytes + bytesPerValue * values)
  return { bytes, values, weight, isAwaited: isAwaited(vm, status) }
}

export const statusWriteOf = (
  vm: Persisted<CachedVm>,
  status: VirtualMachineStatus,
  cost = costOfUpdate(vm, status),
): StatusWrite => ({
  ...cost,
  body: Buffer.from(JSON.stringify([...unchanged(vm), ...statusPatch(vm, status)])),
})

/** Of the JSON, without what is escaped. Makes no copy. */
function countBytes(value: unknown): number {
  if (typeof value === 'string') return Buffer.byteLength(value) + 3
  if (typeof value !== 'object' || value === null) return String(value).length + 1
  if (Array.isArray(value)) return value.reduce<number>((sum, one: unknown) => sum + countBytes(one), 2)
  return Object.entries(value).reduce((sum, [key, one]) => sum + key.length + 4 + countBytes(one), 2)
}

/**
 * Whether somebody waits for it who does not wait for other VMs: users for the start, the controller for the end and
 * for answers to its requests to freeze the guest. Of each kind only the first counts: a VM has one start and one end, and
 * a request two answers. A launcher that forgets the request in between can repeat these, but that takes updates which
 * are not awaited.
 */
function isAwaited({ status: before = {} }: CachedVm, after: VirtualMachineStatus): boolean {
  if (isFinished({ status: after })) return !isFinished({ status: before })
  if (after.phase === 'Running' && before.phase === 'Scheduled') return true
  return answered(before.freeze?.id, after) > answered(before.freeze?.id, before)
}

/** How many outcomes of the request are known. */
const answered = (id: string | undefined, { frozen }: VirtualMachineStatus): number =>
  id === undefined || frozen?.id !== id ? 0 : outcomes[frozen.state]

const outcomes: { readonly [state in FreezeState]: number } = {
  Freezing: 0,
  Frozen: 1,
  Failed: 1,
  Thawing: 1,
  Thawed: 2,
  Expired: 2,
}
