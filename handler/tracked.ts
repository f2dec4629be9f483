import { createBackOff, type BackOff } from '../runtime/back-off.ts'
import { createBucket, type Bucket } from '../runtime/bucket.ts'
import type { Clock } from '../runtime/clock.ts'
import type { FairLimit } from '../runtime/fair-limit.ts'
import type { Launcher, LauncherLimits } from './launcher.ts'
import { newTapState, type TapState } from './vm-taps.ts'

/**
 * A VM's life has a dozen events and updates. After this burst, a launcher causes one round and one update a second.
 */
const mostAtOnce = 20
const perSecond = 1

/**
 * A VM's life has a dozen responses, of 60 KiB and 4,000 values for a domain of 100 devices; an event is 200 bytes, and
 * 60 KiB from an older launcher.
 */
const responseBytes = { perSecond: 64 * 1024, burst: 4 * 1024 * 1024 }
const eventBytes = { perSecond: 64 * 1024, burst: 1024 * 1024 }

/** The back-off before a closed event stream is reopened. */
const reopening = { firstMs: 1000, longestMs: 30_000, healthyMs: 60_000 }

/** The back-off before a generation of the VM that the launcher accepted, but does not report, is sent again. */
const sending = { firstMs: 1000, longestMs: 30_000, healthyMs: 60_000 }

/** What is known about a VM beside its object. The handler can lose all of it. */
export interface Tracked {
  readonly limits: Omit<LauncherLimits, 'deadlineMs'>
  /** The rounds that its launcher's events can still cause. */
  readonly hints: Bucket
  /**
   * The status updates that its launcher can still cause. Each brings a round, in which it can respond differently
   * again.
   */
  readonly writes: Bucket
  readonly reopening: BackOff
  readonly sending: BackOff
  /** The generation of the VM that its launcher accepted last, which it has not necessarily reported. */
  accepted: { readonly generation: number; readonly sendAgainAtMs: number } | undefined
  /** An event has queued a round that has not begun. */
  isHinted: boolean
  /** Since when, by the monotonic clock, its launcher has not reported. */
  silentSince: number | undefined
  /** Since when its pod has had no launcher socket. */
  absentSince: number | undefined
  /** Since when its launcher has been starting the guest. */
  startingSince: number | undefined
  /** The version of the contract that its launcher stated last; 0 before, and of a launcher that states none. */
  launcherVersion: number
  /** How its launcher's events violate the contract. */
  misbehavior: string | undefined
  readonly taps: TapState
  /** Open while its launcher's events are followed; abort it to stop that. */
  following: AbortController | undefined
  /** The event stream is not reopened before this time. */
  followAtMs: number
}

/** One VM and its launcher during a round. */
export interface Round {
  readonly key: string
  readonly podUID: string
  readonly entry: Tracked
  readonly launcher: Launcher
}

/** @param pending the budget of the node, by namespace, for the bytes of unfinished exchanges with launchers */
export function newTracked(namespace: string, pending: FairLimit, clock: Clock): Tracked {
  const bytes = (of: { perSecond: number; burst: number }) => createBucket(of.perSecond, of.burst, clock)
  return {
    limits: {
      responses: bytes(responseBytes),
      events: bytes(eventBytes),
      hold: (end) => pending.hold(namespace, end),
    },
    hints: createBucket(perSecond, mostAtOnce, clock),
    writes: createBucket(perSecond, mostAtOnce, clock),
    reopening: createBackOff({ ...reopening, clock, random: () => 0 }),
    sending: createBackOff({ ...sending, clock, random: () => 0 }),
    accepted: undefined,
    isHinted: false,
    silentSince: undefined,
    absentSince: undefined,
    startingSince: undefined,
    launcherVersion: 0,
    misbehavior: undefined,
    taps: newTapState(),
    following: undefined,
    followAtMs: 0,
  }
}

/** Milliseconds since this time of the monotonic clock; 0 if it is undefined. */
export const since = (startMs: number | undefined, clock: Clock): number =>
  startMs === undefined ? 0 : clock.monotonic() - startMs
