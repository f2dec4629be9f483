import type { VirtualMachine } from '../api/virtual-machine.ts'
import type { Clock } from '../runtime/clock.ts'

/** A kubelet refuses at once, and each pod that is created and deleted is several writes. */
const longestRowMs = 120_000

/**
 * When the API server refused a pod of a VM, or its labels. A user can change labels of the VM many times a second, and
 * each change leads to a pass; the write is not tried again before its time, unless the spec has changed. Nothing
 * depends on it: a new process tries at once.
 */
export interface RefusedPods {
  /** @param podName for a VM that has several pods */
  note(vm: VirtualMachine, afterMs: number, podName?: string): void
  /** For a pod that exists and is deleted again: `afterMs` doubles, up to 2 min, while no pod lasts that long. */
  noteInRow(vm: VirtualMachine, afterMs: number, podName: string): void
  /** Zero or less: the pod may be written. */
  leftMs(vm: VirtualMachine, podName?: string): number
  /** When it may be written, by the monotonic clock, also if that has passed; 0 for one that was not refused. */
  untilMs(vm: VirtualMachine, podName?: string): number
  /** Forgets all pods of this VM. */
  forget(uid: string): void
}

interface Refused {
  readonly generation: number | undefined
  readonly pods: Map<string, { readonly untilMs: number; readonly afterMs: number }>
}

export function createRefusedPods(clock: Pick<Clock, 'monotonic'>): RefusedPods {
  const refused = new Map<string, Refused>()
  const find = ({ metadata: { uid = '', generation } }: VirtualMachine): Refused | undefined => {
    const known = refused.get(uid)
    return known?.generation === generation ? known : undefined
  }
  const untilMs = (vm: VirtualMachine, podName = ''): number => find(vm)?.pods.get(podName)?.untilMs ?? 0
  const note = (vm: VirtualMachine, afterMs: number, podName = ''): void => {
    const { uid = '', generation } = vm.metadata
    // Those of an earlier spec are dropped, so there are at most as many as a spec has pods.
    const known = find(vm) ?? { generation, pods: new Map() }
    refused.set(uid, known)
    known.pods.set(podName, { untilMs: clock.monotonic() + afterMs, afterMs })
  }
  return {
    note,
    noteInRow(vm, afterMs, podName) {
      const before = find(vm)?.pods.get(podName)
      const lastedMs = before === undefined ? Infinity : clock.monotonic() - before.untilMs
      if (before === undefined || lastedMs > before.afterMs) return note(vm, afterMs, podName)
      // Before its time no other was created: it is the same pod.
      note(vm, lastedMs < 0 ? before.afterMs : Math.min(2 * before.afterMs, longestRowMs), podName)
    },
    leftMs: (vm, podName) => untilMs(vm, podName) - clock.monotonic(),
    untilMs,
    forget: (uid) => void refused.delete(uid),
  }
}
