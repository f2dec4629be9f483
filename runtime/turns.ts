import { LRUCache } from 'lru-cache'
import { createOneByOne, type OneByOne } from './one-by-one.ts'

/**
 * The owner of a request. Turns alternate between namespaces first, because a tenant can have many service accounts but
 * not many namespaces.
 */
export interface Owner {
  readonly namespace: string
  readonly username: string
}

/**
 * Handles requests one at a time, with other events in between. The next request is from the namespace that was served
 * least recently, and within it from the user who was served least recently. A user who sends many expensive requests
 * delays other users by only one of them. A request that is late when the next one is chosen is dropped, because its
 * caller already has a response.
 */
export type Turns = OneByOne<Owner>

/** The number of owners whose last turn is stored; more than the requests in progress. */
const maxOwners = 1024

export function createTurns(defer?: (next: () => void) => void): Turns {
  const lastTurns = new LRUCache<string, number>({ max: maxOwners })
  let turn = 0
  const userKey = ({ namespace, username }: Owner): string => `${namespace}/${username}`
  const lastTurn = (key: string): number => lastTurns.peek(key) ?? 0
  return createOneByOne({
    compare: (one, other) =>
      lastTurn(one.namespace) - lastTurn(other.namespace) || lastTurn(userKey(one)) - lastTurn(userKey(other)),
    onTurn(owner) {
      turn += 1
      for (const key of [owner.namespace, userKey(owner)]) lastTurns.set(key, turn)
    },
    ...(defer === undefined ? {} : { defer }),
  })
}
