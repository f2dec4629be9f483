import type { ObjectMeta } from '../api/object.ts'
import { isAlreadyExists, isConflict, isNotFound } from './api-error.ts'
import { microTimestamp, sleep, systemClock } from './clock.ts'
import type { Clock } from './clock.ts'
import type { KubeClient } from './kube.ts'
import type { Logger } from './log.ts'
import { resource } from './resource.ts'
import type { Persisted } from './resource.ts'

interface Lease {
  readonly apiVersion?: string
  readonly kind?: string
  readonly metadata: ObjectMeta
  readonly spec?: {
    readonly holderIdentity?: string
    readonly leaseDurationSeconds?: number
    readonly acquireTime?: string
    readonly renewTime?: string
    readonly leaseTransitions?: number
  }
}

const leases = resource<Lease>({
  group: 'coordination.k8s.io',
  version: 'v1',
  plural: 'leases',
  kind: 'Lease',
  namespaced: true,
})

interface LeaderElectionOptions {
  readonly kube: KubeClient
  readonly log: Logger
  readonly lease: { readonly namespace: string; readonly name: string }
  /**
   * The identity of this process; two running processes must not share one. The name of the pod is suitable: the
   * kubelet restarts a container only after it ended, and the restarted process does not have to wait for its own lease
   * to expire.
   */
  readonly identity: string
  /**
   * The candidacy begins when this resolves: a process that still fills its caches cannot act as leader, and can be too
   * busy to renew the lease in time. Absent: at once.
   */
  readonly ready?: (signal: AbortSignal) => Promise<unknown>
  /** Called once, when this process becomes the leader. */
  readonly onLeading: () => void
  /**
   * Called once, when this process is no longer the leader. It should exit at once: work that began under the lease may
   * be in progress, and another process may lead in 5 s.
   */
  readonly onLost: (why: string) => void
  readonly clock?: Clock
  readonly random?: () => number
}

/**
 * At most one process leads. The leader renews the lease every 2 s, and stops leading when that failed for 10 s,
 * counted from when it *sent* the last successful write. Another process takes over when it has seen the lease
 * unchanged for 15 s of its own time: clocks are never compared, and their speeds may differ by less than half.
 *
 * The 5 s between are for a request that was sent while its process led, and takes effect later: `isLeader` must be
 * asked when a write is sent. A request can take longer (a client waits for 35 s without a byte), so the loser exits at
 * once, which breaks its connections. What then still takes effect must fail by what it is conditional on.
 *
 * A leader whose event loop was blocked for longer does nothing before it has renewed the lease once more. That
 * succeeds only if no other process has written it meanwhile.
 *
 * Where the lease is deleted, another process creates it again with nobody as its holder, and waits for 15 s as for any
 * other holder. So whatever was deleted before, it takes over only a lease that existed unchanged for that long. The
 * process that leads creates the lease again too, or takes it from nobody, at once. Only a process that has never seen
 * the lease creates it as its holder: both can lead until the former holder renews, at most 2 s later if the API server
 * responds, and 10 s otherwise.
 */
interface LeaderElection {
  /**
   * True only while no other process can have taken over; it reads the clock, so it is correct after a long pause too.
   * Except if the whole machine was suspended, because the monotonic clock of Linux stands still meanwhile: then until
   * the next renewal, at most 2 s later, which finds another holder.
   */
  isLeader(): boolean
  /** The holder of the lease, as last seen. */
  leader(): string | undefined
  /**
   * Ends the candidacy, and releases the lease if this process holds it, so that no other has to wait for it to expire.
   */
  stop(): Promise<void>
}

/** As in client-go: 15 s, 10 s, 2 s, and up to 1.2 times as long between attempts to acquire. */
const leaseDurationMs = 15_000
const renewDeadlineMs = 10_000
const retryPeriodMs = 2000
const jitter = 1.2
/** The holder of a lease that was created again after it had been deleted. No pod can have this name. */
const nobody = 'nobody: the lease was deleted'
/** A timer that fires later than this was delayed by a blocked event loop or a suspended process. */
const blockedMs = 500

export function startLeaderElection(options: LeaderElectionOptions): LeaderElection {
  const { kube, log, lease, identity, clock = systemClock, random = Math.random } = options
  const stopping = new AbortController()
  let observed: Persisted<Lease> | undefined
  let observedAtMs = 0
  /** There was no lease when it was last read. */
  let isMissing = false
  /** Another client has written or deleted the lease: this process does not lead until it has written it again. */
  let isOutdated = false
  /** This process leads until then; undefined: it never did. */
  let leadsUntilMs: number | undefined
  let isOver = false

  const observe = (found: Persisted<Lease>) => {
    if (found.metadata.resourceVersion === observed?.metadata.resourceVersion) return
    observed = found
    observedAtMs = clock.monotonic()
  }

  const holder = () => (isMissing ? '' : (observed?.spec?.holderIdentity ?? ''))

  const isHeldByAnother = () => {
    // Nobody else can lead yet.
    if (holder() === nobody && remainingMs() > 0) return false
    const durationMs = Math.max(leaseDurationMs, (observed?.spec?.leaseDurationSeconds ?? 0) * 1000)
    return holder() !== '' && holder() !== identity && clock.monotonic() - observedAtMs < durationMs
  }

  const nextSpec = (): NonNullable<Lease['spec']> => {
    const now = microTimestamp(clock)
    const before = observed?.spec
    const transitions = before?.leaseTransitions ?? 0
    const isOurs = holder() === identity
    // Whoever leads can have created and renewed it since it was deleted the first time.
    const isUnknown = isMissing && observed !== undefined && remainingMs() <= 0
    return {
      holderIdentity: isUnknown ? nobody : identity,
      leaseDurationSeconds: leaseDurationMs / 1000,
      acquireTime: isOurs ? (before?.acquireTime ?? now) : now,
      renewTime: now,
      leaseTransitions: isOurs || !before ? transitions : transitions + 1,
    }
  }

  /** Writes the lease if it is free, ours or missing; returns whether we hold it. */
  const acquireOrRenew = async (signal: AbortSignal): Promise<boolean> => {
    // A leader's own copy is the newest unless another client wrote.
    if (isOutdated || holder() !== identity) {
      const found = await read(signal)
      isMissing = found === undefined
      if (found) observe(found)
    }
    if (isHeldByAnother()) return false
    const sentAtMs = clock.monotonic()
    const written = await write(nextSpec(), signal)
    if (written === undefined) return false
    isOutdated = false
    isMissing = false
    observe(written)
    if (isHeldByAnother()) return false
    leadsUntilMs = sentAtMs + renewDeadlineMs
    return true
  }

  /** Undefined: another client has written or deleted the lease since it was observed. */
  const write = async (
    spec: NonNullable<Lease['spec']>,
    signal: AbortSignal,
  ): Promise<Persisted<Lease> | undefined> => {
    const before = isMissing ? undefined : observed
    try {
      return before
        ? await kube.update(leases, { ...before, spec }, { signal })
        : await kube.create(leases, { metadata: { ...lease }, spec }, { signal })
    } catch (error) {
      // A creation finds no namespace.
      const isGone = before !== undefined && isNotFound(error)
      if (!isConflict(error) && !isAlreadyExists(error) && !isGone) throw error
      isOutdated = true
      return undefined
    }
  }

  const read = (signal: AbortSignal): Promise<Persisted<Lease> | undefined> =>
    kube.get(leases, lease, { signal }).catch((error: unknown) => {
      if (isNotFound(error)) return undefined
      throw error
    })

  /** One attempt, cancelled after `limitMs`. */
  const attempt = async (limitMs: number): Promise<boolean> => {
    const limit = new AbortController()
    const cancel = clock.after(limitMs, () => limit.abort(new Error('the API server took too long')))
    try {
      const signal = AbortSignal.any([limit.signal, stopping.signal])
      // What another client has written is read at once: meanwhile, this process does not lead.
      return (await acquireOrRenew(signal)) || (isOutdated && !isHeldByAnother() && (await acquireOrRenew(signal)))
    } catch (error) {
      if (!stopping.signal.aborted) log.warn({ err: error, lease }, 'could not acquire or renew the lease')
      return false
    } finally {
      cancel()
    }
  }

  const run = async (): Promise<void> => {
    await options.ready?.(stopping.signal)
    while (!(await attempt(renewDeadlineMs))) await pause(retryPeriodMs * (1 + random() * jitter))
    log.info({ lease, identity }, 'leading')
    options.onLeading()
    do {
      await pause(Math.min(retryPeriodMs, remainingMs()))
      if (remainingMs() > 0) await attempt(remainingMs())
    } while (!isHeldByAnother() && (remainingMs() > 0 || (remainingMs() < -blockedMs && (await confirm()))))
    lose(isHeldByAnother() ? `"${holder()}" took the lease` : 'the lease could not be renewed in time')
  }

  const remainingMs = () => (leadsUntilMs ?? 0) - clock.monotonic()

  /** Renews the lease late; returns whether no other process can have led meanwhile. */
  const confirm = async (): Promise<boolean> => {
    const before = observed
    const limitMs = leaseDurationMs - renewDeadlineMs
    // The connection of the first attempt may have been closed meanwhile.
    const isRenewed = (await attempt(limitMs)) || (!isHeldByAnother() && (await attempt(limitMs)))
    const isSame = observed?.metadata.uid === before?.metadata.uid
    return isRenewed && isSame && observed?.spec?.leaseTransitions === before?.spec?.leaseTransitions
  }

  const lose = (why: string) => {
    isOver = true
    log.error({ lease, identity, why }, 'no longer leading')
    options.onLost(why)
  }

  const pause = (ms: number) => sleep(clock, Math.max(0, ms), stopping.signal)

  const running = run().catch((error: unknown) => {
    if (!stopping.signal.aborted) throw error
  })

  const isLeader = () =>
    !isOver && !isOutdated && leadsUntilMs !== undefined && clock.monotonic() < leadsUntilMs && !isHeldByAnother()

  const giveBack = async (): Promise<void> => {
    if (!observed || !isLeader()) return
    isOver = true
    const spec = { ...observed.spec, holderIdentity: '', leaseDurationSeconds: 1, renewTime: microTimestamp(clock) }
    const limit = new AbortController()
    const cancel = clock.after(retryPeriodMs, () => limit.abort(new Error('the API server took too long')))
    await kube.update(leases, { ...observed, spec }, { signal: limit.signal }).catch((error: unknown) => {
      log.warn({ err: error, lease }, 'could not release the lease; it expires by itself')
    })
    cancel()
  }

  return {
    isLeader: () => isLeader() && !stopping.signal.aborted,
    leader: () => holder() || undefined,
    async stop() {
      stopping.abort()
      await running
      await giveBack()
    },
  }
}
