import { LRUCache } from 'lru-cache'
import { createBucket, type Rate } from './bucket.ts'
import type { Clock } from './clock.ts'
import { availableMs, threadMs } from './thread-time.ts'

/** A share of the time of the event loop, for work of peers that can make it expensive. */
export interface TimeBudget {
  /**
   * Runs it at once if there is time left, and otherwise when its turn has come. The next one is of the peer that has
   * used the least time lately; what its bytes can cost counts as well, so small work precedes large work. Of one peer,
   * work that begins something, in the order of its arrival, and work that continues something, the smallest first, take
   * turns: neither can be kept waiting by any number of the other.
   * @param bytes of this work
   * @param before of what it continues
   * @returns removes it, if it still waits
   */
  add(peer: string, bytes: number, before: number, run: () => void): () => void
}

/** Certificates of RSA whose public exponent is as long as the key: 6 ms for 1.3 KB. */
const worstMsPerKiB = 5

/** After this time, what a peer has used counts half. Peers that cost much should wait for all others. */
const halfLifeMs = 60_000

const mostPeers = 4096

interface Work {
  readonly peer: string
  readonly isNew: boolean
  readonly worstMs: number
  readonly run: () => void
}

/** The next work of a peer, of each kind. */
interface Candidates {
  begins?: Work
  continues?: Work
}

/** The times of a thread, in milliseconds. */
export interface ThreadTimes {
  /** For which it had the CPU. On a busy node, other processes have it in the meantime: the peer does not pay for that. */
  readonly cpuMs: () => number
  /**
   * For which it could have had the CPU. A share of the time that passes would be all of the time of a process that
   * gets as little.
   */
  readonly availableMs: () => number
}

const thisThread: ThreadTimes = { cpuMs: threadMs, availableMs }

/** @param rate in milliseconds of CPU time, of those in which it was available */
export function createTimeBudget(
  rate: Rate,
  clock: Pick<Clock, 'after' | 'monotonic'>,
  { cpuMs, availableMs: monotonic }: ThreadTimes = thisThread,
): TimeBudget {
  const bucket = createBucket(rate.perSecond, rate.burst, { monotonic })
  const used = new LRUCache<string, { readonly ms: number; readonly atMs: number; readonly wasNew: boolean }>({
    max: mostPeers,
  })
  /** In the order of their arrival. */
  const waiting = new Set<Work>()
  let [isRunning, isScheduled] = [false, false]

  const usedBy = (peer: string, nowMs: number): number => {
    const found = used.get(peer)
    return found === undefined ? 0 : found.ms * 2 ** ((found.atMs - nowMs) / halfLifeMs)
  }
  const next = (): Work | undefined => {
    const nowMs = clock.monotonic()
    const candidates = new Map<string, Candidates>()
    for (const work of waiting) {
      const of = candidates.get(work.peer) ?? {}
      candidates.set(work.peer, of)
      if (work.isNew) of.begins ??= work
      else if (of.continues === undefined || work.worstMs < of.continues.worstMs) of.continues = work
    }
    let [first, least]: [Work | undefined, number] = [undefined, Infinity]
    for (const [peer, { begins, continues }] of candidates) {
      const work = used.get(peer)?.wasNew === true ? (continues ?? begins) : (begins ?? continues)
      const cost = usedBy(peer, nowMs) + (work?.worstMs ?? 0)
      if (cost < least) [first, least] = [work, cost]
    }
    return first
  }
  const perform = ({ peer, isNew, run }: Work) => {
    const began = cpuMs()
    run()
    const ms = cpuMs() - began
    const nowMs = clock.monotonic()
    bucket.take(ms)
    used.set(peer, { ms: usedBy(peer, nowMs) + ms, atMs: nowMs, wasNew: isNew })
  }
  const advance = () => {
    if (isRunning || isScheduled) return
    isRunning = true
    for (let work = next(); work !== undefined; work = next()) {
      const debtMs = bucket.take(0)
      if (debtMs > 0) {
        isScheduled = true
        clock.after(Math.ceil(debtMs), () => {
          isScheduled = false
          advance()
        })
        break
      }
      waiting.delete(work)
      perform(work)
    }
    isRunning = false
  }
  return {
    add(peer, bytes, before, run) {
      const work = { peer, isNew: before === 0, worstMs: ((before + bytes) / 1024) * worstMsPerKiB, run }
      waiting.add(work)
      advance()
      return () => waiting.delete(work)
    },
  }
}
