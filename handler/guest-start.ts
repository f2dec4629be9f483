import type { Persisted } from '../runtime/resource.ts'
import type { Observer } from './observer.ts'
import { mayStart, type Observation } from './plan.ts'
import type { Sending } from './sending.ts'
import type { CachedVm } from './slim-vm.ts'
import type { Step } from './steps.ts'
import type { Round } from './tracked.ts'
import type { VmTaps } from './vm-taps.ts'
import type { WholeVms } from './whole-vms.ts'

type Vm = Persisted<CachedVm>

interface GuestStartOptions {
  readonly sending: Sending
  readonly taps: VmTaps
  readonly observer: Observer
  readonly wholeVms: WholeVms
  /** The VM as it is known now; undefined if it was deleted. */
  readonly newest: (round: Round, vm: Vm) => Vm | undefined
  readonly plan: (round: Round, vm: Vm, observation: Observation) => readonly Step[]
}

/**
 * Starts a guest: creates its taps, and hands the launcher their addresses, the node's capabilities and the VM.
 * @returns what is to be done afterwards; nothing if another round follows
 */
export function createGuestStart(options: GuestStartOptions): (round: Round, vm: Vm) => Promise<readonly Step[]> {
  const { sending, taps, observer, wholeVms, newest, plan } = options
  return async (round, vm) => {
    if (sending.mustWait(round, vm) || taps.mustWait(round)) return []
    const prepared = await taps.prepare(round, vm)
    if (prepared === 'pending') return []
    if ('kind' in prepared) return plan(round, vm, prepared)
    if (prepared.length > 0) {
      const failure = await observer.failureOf(round, () => round.launcher.putNetwork(prepared))
      if (failure !== undefined) return plan(round, vm, failure)
    }
    await sending.sendCapabilities(round, vm)
    const found = await observer.find(round, vm)
    // Its launcher may have withheld the responses so far for seconds.
    const current = newest(round, vm)
    if (current === undefined) return []
    const started = await wholeVms.use(current, async (whole) =>
      whole.status?.podUID === round.podUID && mayStart(whole)
        ? observer.observe(round, vm, { found, request: () => sending.start(round, whole) })
        : undefined,
    )
    // It was deleted meanwhile: its event queues another round.
    return started ?? []
  }
}
