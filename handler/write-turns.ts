import { createBucket, type Rate } from '../runtime/bucket.ts'
import type { Clock } from '../runtime/clock.ts'

/**
 * Lets writes begin at a rate, by their weight, and few at a time. Nobody waits for a turn: a key without one is
 * announced when it has one.
 *
 * A write begins once all earlier ones are paid for, whatever it weighs itself, and as much of them has ended that it
 * fits into what may be in progress, or all of them. The weight is shared equally by the namespaces that have writes:
 * one that had none for a while is next.
 *
 * A turn that is announced and not used for a second counts no longer. It is paid for all the same: otherwise a namespace
 * that does not use its turns would keep them from others. Who is late can use it beside as much as may be in progress.
 */
export interface WriteTurns {
  /**
   * Whether the write of this key can begin now; `end` is then to be called when it has ended. If not, the key is
   * announced later, and calls this again with what it has to write by then.
   */
  take(key: string, namespace: string, weight: number): boolean
  /** The key has nothing to write: gives up its turn, unless its write has begun, and its place. */
  leave(key: string): void
  end(key: string): void
}

interface WriteLimits extends Rate {
  readonly inProgress: {
    /** Of the writes together; one alone can have more. */
    readonly weight: number
    readonly all: number
    readonly perNamespace: number
  }
}

interface Namespace {
  /** The weight of its writes so far, as if it had always had some. */
  from: number
  /** The keys that wait, in the order of their turns, and their weights. */
  readonly waiting: Map<string, number>
  inProgress: number
}

interface Turn {
  readonly of: Namespace
  readonly weight: number
  /** Of a turn that is announced. */
  cancelExpiry?: () => void
  /** It was not used in time, and has given its place to another. */
  readonly isLate: boolean
}

/** A round begins at once, and most launchers respond within milliseconds. */
const unusedMs = 1000

/** @param announce is called with a key that has a turn, for a second */
export function createWriteTurns(
  { inProgress, perSecond, burst }: WriteLimits,
  clock: Pick<Clock, 'monotonic' | 'after'>,
  announce: (key: string) => void,
): WriteTurns {
  const bucket = createBucket(perSecond, burst, clock)
  const namespaces = new Map<string, Namespace>()
  /** By key. */
  const waitingIn = new Map<string, Namespace>()
  const turns = new Map<string, Turn>()
  /** The weights of turns that were not used in time, by key. */
  const late = new Map<string, number>()
  /** The `from` of the write that began last. */
  let reached = 0
  let isInDebt = false

  const namespaceOf = (name: string): Namespace => {
    const known = namespaces.get(name)
    if (known !== undefined) return known
    const one: Namespace = { from: reached, waiting: new Map(), inProgress: 0 }
    namespaces.set(name, one)
    return one
  }

  /** The key whose turn is next, unless its namespace has enough in progress. One of its writes may be in progress. */
  const first = () => {
    let found:
      | { readonly key: string; readonly of: Namespace; readonly weight: number; readonly to: number }
      | undefined
    for (const of of namespaces.values()) {
      if (of.inProgress >= inProgress.perNamespace) continue
      for (const [key, weight] of of.waiting) {
        if (turns.has(key)) continue
        const to = of.from + weight
        if (found === undefined || to < found.to) found = { key, of, weight, to }
        break
      }
    }
    return found
  }

  const fits = (weight: number, isLate: boolean): boolean => {
    const others = [...turns.values()].filter((one) => one.isLate === isLate)
    if (others.length >= inProgress.all) return false
    return others.length === 0 || others.reduce((sum, one) => sum + one.weight, weight) <= inProgress.weight
  }

  const stopWaiting = (key: string) => {
    waitingIn.get(key)?.waiting.delete(key)
    waitingIn.delete(key)
  }

  const begin = (key: string, of: Namespace, weight: number, isLate = false) => {
    stopWaiting(key)
    turns.set(key, { of, weight, isLate })
    of.inProgress++
  }

  const pay = (of: Namespace, weight: number) => {
    reached = Math.max(reached, of.from)
    of.from += weight
    bucket.take(weight)
    for (const [name, one] of namespaces)
      if (one.from <= reached && one.waiting.size + one.inProgress === 0) namespaces.delete(name)
  }

  const finish = (key: string, { of, cancelExpiry }: Turn) => {
    cancelExpiry?.()
    turns.delete(key)
    // Others had their turns while it could have none.
    if (of.inProgress >= inProgress.perNamespace) of.from = Math.max(of.from, reached)
    of.inProgress--
  }

  const announceTurn = (key: string) => {
    const turn = turns.get(key)
    if (turn === undefined) return
    turn.cancelExpiry = clock.after(unusedMs, () => {
      finish(key, turn)
      late.set(key, turn.weight)
      pump()
    })
    announce(key)
  }

  const waitFor = (debtMs: number) => {
    isInDebt = true
    clock.after(debtMs, () => {
      isInDebt = false
      pump()
    })
  }

  /** @param taker is not announced */
  const pump = (taker?: string) => {
    while (!isInDebt) {
      const one = first()
      if (one === undefined || !fits(one.weight, false)) return
      const debtMs = Math.ceil(bucket.take(0))
      if (debtMs > 0) return waitFor(debtMs)
      begin(one.key, one.of, one.weight)
      pay(one.of, one.weight)
      if (one.key !== taker) announceTurn(one.key)
    }
  }

  /** What is written can have changed since the turn was paid for. */
  const payRest = (of: Namespace, weight: number, paid: number) => {
    if (weight > paid) pay(of, weight - paid)
  }

  const takeAnnounced = (key: string, weight: number): boolean => {
    const turn = turns.get(key)
    if (turn?.cancelExpiry === undefined) return false
    finish(key, turn)
    if (!fits(weight, false)) return false
    begin(key, turn.of, weight)
    payRest(turn.of, weight, turn.weight)
    return true
  }

  /** Its turn is paid for, and would be late again the next time: its launcher is slow, or the node has no CPU time. */
  const takeLate = (key: string, of: Namespace, weight: number): boolean => {
    const paid = late.get(key)
    late.delete(key)
    if (paid === undefined || turns.has(key)) return false
    if (of.inProgress >= 2 * inProgress.perNamespace || !fits(weight, true)) return false
    begin(key, of, weight, true)
    payRest(of, weight, paid)
    return true
  }

  return {
    take(key, namespace, weight) {
      const of = namespaceOf(namespace)
      if (takeAnnounced(key, weight) || takeLate(key, of, weight)) return true
      if (of.waiting.size === 0) of.from = Math.max(of.from, reached)
      of.waiting.set(key, weight)
      waitingIn.set(key, of)
      pump(key)
      return !waitingIn.has(key)
    },
    leave(key) {
      late.delete(key)
      const turn = turns.get(key)
      if (turn?.cancelExpiry !== undefined) finish(key, turn)
      stopWaiting(key)
      pump()
    },
    end(key) {
      const turn = turns.get(key)
      if (turn === undefined || turn.cancelExpiry !== undefined) return
      finish(key, turn)
      pump()
    },
  }
}
