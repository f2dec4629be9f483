/**
 * Limits how many requests of one key (a user, a namespace) are in progress, so that no key can use up all capacity.
 */
export interface Shares {
  /** Returns the function that releases the place, which can be called twice; undefined if the key is at its limit. */
  take(key: string): (() => void) | undefined
}

export function createShares(limit: number): Shares {
  const taken = new Map<string, number>()
  return {
    take(key) {
      const count = taken.get(key) ?? 0
      if (count >= limit) return undefined
      taken.set(key, count + 1)
      let isTaken = true
      return () => {
        if (!isTaken) return
        isTaken = false
        const left = (taken.get(key) ?? 0) - 1
        if (left > 0) taken.set(key, left)
        else taken.delete(key)
      }
    },
  }
}
