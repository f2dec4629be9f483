import type { VirtualMachine } from '../api/machine.ts'
import type { Persisted } from '../runtime/resource.ts'

type Machine = Persisted<VirtualMachine>

/**
 * What this process did for a group and the watch has not told of yet, by uid; so that a cache that lags never makes one VM too many. A creation whose outcome nobody
 * knows is remembered by its name: it is tried again under the same name, and there cannot be two.
 */
export interface Expectations {
  /** The API server has made it. */
  created(machine: Machine, nowMs: number): void
  /** The API server has taken its deletion. */
  deleted(uid: string): void
  /** Nobody knows whether a VM of this name was made. */
  doubted(name: string): void
  /** What became of a name is known. */
  settled(name: string): void
  /** The watch told of this VM. */
  told(machine: Machine, isGone: boolean): void
  /** Made, and not told of yet. */
  readonly unseen: readonly Machine[]
  readonly deletedUids: ReadonlySet<string>
  readonly doubtfulNames: readonly string[]
  /** Those that the watch has owed us for longer than it should; somebody has to ask. */
  overdue(nowMs: number): readonly Machine[]
  forget(uid: string): void
}

/** A watch tells within milliseconds; one that has died is noticed and opened anew within minutes. */
const overdueMs = 30_000

export function createExpectations(): Expectations {
  const created = new Map<string, { readonly machine: Machine; readonly atMs: number }>()
  const deleted = new Set<string>()
  const doubtful = new Set<string>()
  return {
    created: (machine, atMs) => void created.set(machine.metadata.uid, { machine, atMs }),
    deleted: (uid) => void deleted.add(uid),
    doubted: (name) => void doubtful.add(name),
    settled: (name) => void doubtful.delete(name),
    told({ metadata }, isGone) {
      created.delete(metadata.uid)
      doubtful.delete(metadata.name)
      if (isGone || metadata.deletionTimestamp !== undefined) deleted.delete(metadata.uid)
    },
    get unseen() {
      return [...created.values()].map(({ machine }) => machine)
    },
    get deletedUids() {
      return deleted
    },
    get doubtfulNames() {
      return [...doubtful]
    },
    overdue: (nowMs) =>
      [...created.values()].filter(({ atMs }) => nowMs - atMs > overdueMs).map(({ machine }) => machine),
    forget(uid) {
      created.delete(uid)
      deleted.delete(uid)
    },
  }
}
