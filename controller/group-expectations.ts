import type { VirtualMachine } from '../api/virtual-machine.ts'
import type { Persisted } from '../runtime/resource.ts'

type Vm = Persisted<VirtualMachine>

/**
 * The writes of this process for a group that the watch has not delivered yet, by uid, so that a lagging cache never
 * leads to one VM too many. A creation with an unknown outcome is remembered by its name and repeated under the same
 * name, so there cannot be two.
 */
export interface Expectations {
  /** The API server created it. */
  created(vm: Vm, nowMs: number): void
  /** The API server accepted its deletion. */
  deleted(uid: string): void
  /** It is unknown whether a VM of this name was created. */
  uncertain(name: string): void
  /** The outcome of the creation under this name is known. */
  resolved(name: string): void
  /** The watch delivered a change of this VM. */
  observed(vm: Vm, isDeleted: boolean): void
  /** Created, and not delivered yet. */
  readonly unseen: readonly Vm[]
  readonly deletedUids: ReadonlySet<string>
  readonly uncertainNames: readonly string[]
  /** Created VMs that the watch has not delivered in time; the caller must read them. */
  overdue(nowMs: number): readonly Vm[]
  forget(uid: string): void
}

/** A watch delivers within milliseconds; one that died is noticed and reopened within minutes. */
export const overdueMs = 30_000

export function createExpectations(): Expectations {
  const created = new Map<string, { readonly vm: Vm; readonly atMs: number }>()
  const deleted = new Set<string>()
  const uncertain = new Set<string>()
  return {
    created: (vm, atMs) => void created.set(vm.metadata.uid, { vm, atMs }),
    deleted: (uid) => void deleted.add(uid),
    uncertain: (name) => void uncertain.add(name),
    resolved: (name) => void uncertain.delete(name),
    observed({ metadata }, isDeleted) {
      created.delete(metadata.uid)
      if (isDeleted || metadata.deletionTimestamp !== undefined) deleted.delete(metadata.uid)
    },
    get unseen() {
      return [...created.values()].map(({ vm }) => vm)
    },
    get deletedUids() {
      return deleted
    },
    get uncertainNames() {
      return [...uncertain]
    },
    overdue: (nowMs) => [...created.values()].filter(({ atMs }) => nowMs - atMs > overdueMs).map(({ vm }) => vm),
    forget(uid) {
      created.delete(uid)
      deleted.delete(uid)
    },
  }
}
