import { LRUCache } from 'lru-cache'
import { createOneByOne, type OneByOne } from './one-by-one.ts'

/**
 * The owner of a request. Turns alternate between tenants first, because a tenant (a namespace) can have many service
 * accounts.
 */
export interface Owner {
  readonly tenant: string
  readonly username: string
}

/**
 * Handles requests one at a time, with other events in between. The next request is from the tenant that was served
 * least recently, and within it from the user who was served least recently. A user who sends many expensive requests
 * delays other users by only one of them. One who was never served counts as served just before the request arrived: so
 * new names, which some users can invent, never precede those that wait longer, and wait for each of these only once. A
 * request that is late when the next one is chosen is dropped, because its caller already has a response.
 */
export type Turns = OneByOne<Owner>

interface Arrival extends Owner {
  readonly duringTurn: number
}

/** The number of owners whose last turn is stored; more than the requests in progress. */
const maxOwners = 1024

export function createTurns(defer?: (next: () => void) => void): Turns {
  const lastTurns = new LRUCache<string, number>({ max: maxOwners })
  let turn = 0
  const tenantKey = ({ tenant }: Owner): string => `tenant ${tenant}`
  const userKey = ({ tenant, username }: Owner): string => `user ${tenant}/${username}`
  const order = createOneByOne<Arrival>({
    compare: (one, other) =>
      lastTurn(tenantKey(one), one) - lastTurn(tenantKey(other), other) ||
      lastTurn(userKey(one), one) - lastTurn(userKey(other), other),
    onTurn(owner) {
      turn += 1
      for (const key of [tenantKey(owner), userKey(owner)]) lastTurns.set(key, turn)
    },
    ...(defer === undefined ? {} : { defer }),
  })
  // Before the turn in progress, so that a new user need not wait for another request of the same owner.
  const lastTurn = (key: string, { duringTurn }: Arrival): number => lastTurns.peek(key) ?? duringTurn - 0.5
  return { take: (owner, isDropped) => order.take({ ...owner, duringTurn: turn }, isDropped) }
}
