import type { VirtualMachine } from '../api/virtual-machine.ts'
import type { Clock } from '../runtime/clock.ts'

/**
 * When the API server refused a pod of a VM, or its labels. A user can change labels of the VM many times a second, and
 * each change leads to a pass; the write is not tried again before its time, unless the spec has changed. Nothing
 * depends on it: a new process tries at once.
 */
export interface RefusedPods {
  /** @param podName for a VM that has several pods */
  note(vm: VirtualMachine, afterMs: number, podName?: string): void
  /** Zero or less: the pod may be written. */
  leftMs(vm: VirtualMachine, podName?: string): number
  /** When it may be written, by the monotonic clock, also if that has passed; 0 for one that was not refused. */
  untilMs(vm: VirtualMachine, podName?: string): number
  /** Forgets all pods of this VM. */
  forget(uid: string): void
}

interface Refused {
  readonly generation: number | undefined
  readonly untilMs: Map<string, number>
}

export function createRefusedPods(clock: Pick<Clock, 'monotonic'>): RefusedPods {
  const refused = new Map<string, Refused>()
  const find = ({ metadata: { uid = '', generation } }: VirtualMachine): Refused | undefined => {
    const known = refused.get(uid)
    return known?.generation === generation ? known : undefined
  }
  const untilMs = (vm: VirtualMachine, podName = ''): number => find(vm)?.untilMs.get(podName) ?? 0
  return {
    note(vm, afterMs, podName = '') {
      const { uid = '', generation } = vm.metadata
      // Those of an earlier spec are dropped, so there are at most as many as a spec has pods.
      const known = find(vm) ?? { generation, untilMs: new Map<string, number>() }
      refused.set(uid, known)
      known.untilMs.set(podName, clock.monotonic() + afterMs)
    },
    leftMs: (vm, podName) => untilMs(vm, podName) - clock.monotonic(),
    untilMs,
    forget: (uid) => void refused.delete(uid),
  }
}
