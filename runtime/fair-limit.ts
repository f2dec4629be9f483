/**
 * A limit that tenants share: of memory, or of places. When they exceed it together, the tenant that holds the most
 * loses the largest of what it holds, of equal ones the last: no tenant can cause a loss of one that holds less.
 */
export interface FairLimit {
  /** @param end is called with the amount that was held, at most once and never after `release` */
  hold(tenant: string, end: (amount: number) => void): Held
}

export interface Held {
  /** Can end this one as well. */
  grow(amount: number): void
  release(): void
}

interface Holder {
  readonly tenant: string
  readonly end: (amount: number) => void
  amount: number
}

export function createFairLimit(limit: number): FairLimit {
  const holders = new Set<Holder>()
  let total = 0

  const release = (holder: Holder) => {
    if (holders.delete(holder)) total -= holder.amount
  }

  const endOne = () => {
    const byTenant = Map.groupBy(holders, ({ tenant }) => tenant)
    const most = largest([...byTenant.values()], (held) => held.reduce((sum, { amount }) => sum + amount, 0))
    const worst = largest(most ?? [], ({ amount }) => amount)
    if (worst === undefined) return
    release(worst)
    worst.end(worst.amount)
  }

  return {
    hold(tenant, end) {
      const holder: Holder = { tenant, end, amount: 0 }
      holders.add(holder)
      return {
        grow(amount) {
          if (!holders.has(holder)) return
          holder.amount += amount
          total += amount
          while (total > limit) endOne()
        },
        release: () => release(holder),
      }
    },
  }
}

/** The last one of those that are equal. */
function largest<T>(of: readonly T[], size: (one: T) => number): T | undefined {
  return of.toReversed().toSorted((one, other) => size(other) - size(one))[0]
}
