import type { GroupStatus } from '../api/group.ts'
import { createBackOff } from '../runtime/back-off.ts'
import type { BackOff } from '../runtime/back-off.ts'
import type { Clock } from '../runtime/clock.ts'
import { createExpectations } from './group-expectations.ts'
import type { Expectations } from './group-expectations.ts'

/** The state of a group that only this process has. */
export interface GroupMemory {
  readonly expectations: Expectations
  /** The VMs that this process created less than `youngMs` ago, by uid, with the time. */
  readonly created: Map<string, number>
  readonly backOff: BackOff
  backOffUntilMs: number
  refusal: string | undefined
  /** Whether to ask with a dry run before a VM is created: the last one would have to be deleted. */
  asksFirst: boolean
  /** Uids of VMs that admission gave labels that the group does not select, until they are gone. */
  readonly rejected: Set<string>
  /** The VMs that could not be adopted, by uid, with when to try again, and for how long it was to wait. */
  readonly refused: Map<string, { readonly againAtMs: number; readonly waitMs: number }>
  /** The VMs that were deleted to scale the group in, by uid, and whether their claims are deleted with them. */
  readonly scaledIn: Map<string, { readonly isBound: boolean }>
  /**
   * By the name of a VM that is to be created, the UIDs of its claims that no other process can give to the last VM of
   * this name any more.
   */
  readonly kept: Map<string, Set<string>>
  /** Whether this process knows all VMs that former leaders created for the group, also those that its cache lacks. */
  isVerified: boolean
}

/** From a second to five minutes; reset after ten minutes without a failure. */
const backOffMs = { firstMs: 1000, longestMs: 300_000, healthyMs: 600_000 }

export function createGroupMemory(status: GroupStatus | undefined, clock: Clock, random: () => number): GroupMemory {
  // What the last leader could not create, a new one does not create only to delete it.
  const failure = status?.conditions?.find(({ type }) => type === 'ReplicaFailure')
  return {
    expectations: createExpectations(),
    created: new Map(),
    backOff: createBackOff({ ...backOffMs, clock, random }),
    backOffUntilMs: 0,
    refusal: failure?.message,
    asksFirst: failure !== undefined,
    rejected: new Set(),
    refused: new Map(),
    scaledIn: new Map(),
    kept: new Map(),
    isVerified: false,
  }
}
