import type { VirtualMachine } from '../api/virtual-machine.ts'
import type { Clock } from '../runtime/clock.ts'

/**
 * When the API server refused the pod of a VM, or its labels. A user can change labels of the VM many times a second,
 * and each change leads to a pass; the write is not tried again before its time, unless the spec has changed. Nothing depends on it: a
 * new process tries at once.
 */
export interface RefusedPods {
  note(vm: VirtualMachine, afterMs: number): void
  /** Zero or less: the pod may be written. */
  leftMs(vm: VirtualMachine): number
  forget(uid: string): void
}

export function createRefusedPods(clock: Pick<Clock, 'monotonic'>): RefusedPods {
  const refused = new Map<string, { readonly generation: number | undefined; readonly untilMs: number }>()
  return {
    note({ metadata: { uid = '', generation } }, afterMs) {
      refused.set(uid, { generation, untilMs: clock.monotonic() + afterMs })
    },
    leftMs({ metadata: { uid = '', generation } }) {
      const known = refused.get(uid)
      return known === undefined || known.generation !== generation ? 0 : known.untilMs - clock.monotonic()
    },
    forget: (uid) => void refused.delete(uid),
  }
}
