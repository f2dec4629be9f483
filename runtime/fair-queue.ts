/**
 * Items that wait. Tenants take turns, one item at a time, and within a tenant its members do, so the items of one delay
 * its own ones only.
 */
export interface FairQueue<T> {
  /** Returns a function that removes the item, if it still waits. */
  add(tenant: string, item: T, member?: string): () => void
  /** Removes the oldest item of the member whose turn it is, of the tenant whose turn it is among those that `accepts`. */
  take(accepts?: (tenant: string) => boolean): T | undefined
  size(): number
}

export function createFairQueue<T>(): FairQueue<T> {
  /** Tenants and their members with an item that waits, in the order of their turns. */
  const turns = new Map<string, Map<string, Set<{ readonly item: T }>>>()
  return {
    add(tenant, item, member = '') {
      const members = turns.get(tenant) ?? new Map<string, Set<{ readonly item: T }>>()
      turns.set(tenant, members)
      const waiting = members.get(member) ?? new Set()
      members.set(member, waiting)
      const entry = { item }
      waiting.add(entry)
      return () => {
        waiting.delete(entry)
        if (waiting.size === 0 && members.get(member) === waiting) members.delete(member)
        if (members.size === 0 && turns.get(tenant) === members) turns.delete(tenant)
      }
    },
    take(accepts = () => true) {
      const found = turns.entries().find(([tenant]) => accepts(tenant))
      if (found === undefined) return undefined
      const [tenant, members] = found
      turns.delete(tenant)
      const [next] = members
      if (next === undefined) return undefined
      const [member, waiting] = next
      members.delete(member)
      const [first] = waiting
      if (first !== undefined) waiting.delete(first)
      if (waiting.size > 0) members.set(member, waiting)
      if (members.size > 0) turns.set(tenant, members)
      return first?.item
    },
    size: () =>
      turns.values().reduce((sum, members) => sum + members.values().reduce((of, { size }) => of + size, 0), 0),
  }
}
