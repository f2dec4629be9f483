/** Items that wait. Tenants take turns, one item at a time, so the items of one tenant delay its own ones only. */
export interface FairQueue<T> {
  /** Returns a function that removes the item, if it still waits. */
  add(tenant: string, item: T): () => void
  /** Removes the oldest item of the tenant whose turn it is, among those that `accepts`. */
  take(accepts?: (tenant: string) => boolean): T | undefined
  size(): number
}

export function createFairQueue<T>(): FairQueue<T> {
  /** Tenants with an item that waits, in the order of their turns. */
  const turns = new Map<string, Set<{ readonly item: T }>>()
  return {
    add(tenant, item) {
      const waiting = turns.get(tenant) ?? new Set()
      turns.set(tenant, waiting)
      const entry = { item }
      waiting.add(entry)
      return () => {
        waiting.delete(entry)
        if (waiting.size === 0 && turns.get(tenant) === waiting) turns.delete(tenant)
      }
    },
    take(accepts = () => true) {
      const found = turns.entries().find(([tenant]) => accepts(tenant))
      if (found === undefined) return undefined
      const [tenant, waiting] = found
      turns.delete(tenant)
      const [first] = waiting
      if (first !== undefined) waiting.delete(first)
      if (waiting.size > 0) turns.set(tenant, waiting)
      return first?.item
    },
    size: () => turns.values().reduce((sum, waiting) => sum + waiting.size, 0),
  }
}
