import type { Clock } from '../runtime/clock.ts'
import type { Logger } from '../runtime/log.ts'
import type { NetworkRequest, TapAddress } from '../runtime/network-api.ts'
import type { Persisted } from '../runtime/resource.ts'
import { NetworkFailure, type NetworkClient } from './network-client.ts'
import { tapsPauseMs, type Observation } from './plan.ts'
import type { CachedVm } from './slim-vm.ts'
import { attemptTaps, networkRequests, type TapAttempt, type TapIPs } from './vm-network.ts'
import type { WholeVms } from './whole-vms.ts'

type Vm = Persisted<CachedVm>

/** What is known about the taps of a VM. The handler can lose all of it. */
export interface TapState {
  /** Absent before the first attempt, and after one that failed was reported. */
  attempt: TapAttempt | undefined
  hasChecked: boolean
  hasReleased: boolean
  /** Since when, by the monotonic clock, they could not be created. */
  failingSince: number | undefined
  /** They are not requested again before this time. */
  againAtMs: number
}

export const newTapState = (): TapState => ({
  attempt: undefined,
  hasChecked: false,
  hasReleased: false,
  failingSince: undefined,
  againAtMs: 0,
})

/** The addresses at which others reach the guest, once its taps are created. */
export const tapIPsOf = ({ attempt }: TapState): TapIPs | undefined =>
  attempt?.state === 'ready' ? attempt.ips : undefined

/** The part of a round that concerns taps. */
interface TapRound {
  readonly key: string
  readonly podUID: string
  readonly entry: { readonly taps: TapState; readonly launcherVersion: number }
}

interface VmTapsOptions {
  readonly network: NetworkClient
  /** Of a pod. */
  readonly addressesOf: (podUID: string) => Promise<readonly string[]>
  readonly wholeVms: Pick<WholeVms, 'use'>
  /** Queues a round of the VM, now or later. */
  readonly queueRound: (key: string, afterMs: number) => void
  readonly recordEvent: (vm: Vm, type: 'Warning', reason: string, message: string) => void
  readonly log: Logger
  readonly clock: Clock
}

export interface VmTaps {
  /**
   * Whether they are being created, or could not be too recently: another round follows. The VM need not be read for
   * that: its launcher decides how many rounds there are.
   */
  mustWait(round: TapRound): boolean
  /**
   * Ensures that they exist before the guest starts. Plugins run beside the rounds: one that hangs delays no other VM.
   * @returns the addresses for the launcher, if there are any; or what prevents the start. `pending`: another round
   * follows when the plugins have ended
   */
  prepare(round: TapRound, vm: Vm): Promise<readonly TapAddress[] | Observation | 'pending'>
  /** Once, of a guest that an earlier handler has started. Nothing is repaired: that could disconnect the guest. */
  check(round: TapRound, vm: Vm): Promise<void>
  /** Once: what plugins made in the network of the pod ends with it anyway. */
  release(round: TapRound, vm: Vm): Promise<void>
}

/** The first version of a launcher that accepts `PUT /network`. */
const withNetwork = 4
/** The first version that serves addresses by DHCPv6. It ignores those of a tap that has both. */
const withDhcp6 = 5

/** The taps of the VMs of a node, which its network agent creates. */
export function createVmTaps(options: VmTapsOptions): VmTaps {
  const { network, addressesOf, wholeVms, queueRound, recordEvent, log, clock } = options

  async function requestsOf(vm: Vm, podUID: string): Promise<NetworkRequest[]> {
    if ((vm.spec.taps ?? []).length === 0) return []
    const ips = await addressesOf(podUID)
    return (await wholeVms.use(vm, async (whole) => networkRequests(whole, podUID, ips))) ?? []
  }

  return {
    mustWait({ key, entry: { taps } }) {
      if (taps.attempt !== undefined) return taps.attempt.state === 'pending'
      const waitMs = taps.againAtMs - clock.monotonic()
      if (waitMs > 0) queueRound(key, waitMs)
      return waitMs > 0
    },

    async prepare({ key, podUID, entry: { taps, launcherVersion } }, vm) {
      const { attempt } = taps
      if (attempt === undefined) {
        const requests = await requestsOf(vm, podUID)
        if (requests.length === 0) return []
        taps.attempt = { state: 'pending' }
        void attemptTaps(network, requests).then((outcome) => {
          taps.attempt = outcome
          queueRound(key, 0)
        })
        return 'pending'
      }
      if (attempt.state === 'pending') return 'pending'
      if (attempt.state === 'failed') {
        taps.attempt = undefined
        taps.failingSince ??= clock.monotonic()
        const failingForMs = clock.monotonic() - taps.failingSince
        taps.againAtMs = clock.monotonic() + tapsPauseMs(failingForMs)
        const { reason, message } = attempt
        return { kind: 'withoutNetwork', reason, message, failingForMs }
      }
      taps.failingSince = undefined
      const { addresses } = attempt
      const isIpv6Only = addresses.some(({ dhcp }) => dhcp === undefined)
      if (addresses.length > 0 && launcherVersion < (isIpv6Only ? withDhcp6 : withNetwork)) {
        const message = `the launcher (protocol version ${launcherVersion}) cannot serve the addresses of taps`
        return { kind: 'withoutNetwork', reason: 'NetworkPluginFailed', message, failingForMs: 0 }
      }
      return addresses
    },

    async check({ key, podUID, entry: { taps } }, vm) {
      if ((vm.spec.taps ?? []).length === 0 || taps.attempt !== undefined || taps.hasChecked) return
      taps.hasChecked = true
      try {
        const requests = await requestsOf(vm, podUID)
        await Promise.all(requests.map((one) => network.check(one)))
      } catch (error) {
        log.info({ vm: key, err: error }, 'could not check the taps of the VM')
        if (error instanceof NetworkFailure && error.reason === 'NetworkPluginFailed')
          recordEvent(vm, 'Warning', error.reason, error.message)
      }
    },

    async release({ key, podUID, entry: { taps } }, vm) {
      if ((vm.spec.taps ?? []).length === 0 || taps.hasReleased) return
      taps.hasReleased = true
      try {
        const requests = await requestsOf(vm, podUID)
        await Promise.all(requests.map((one) => network.del(one)))
      } catch (error) {
        log.info({ vm: key, err: error }, 'could not release the taps of the VM')
      }
    },
  }
}
