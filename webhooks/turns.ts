import { LRUCache } from 'lru-cache'
import { createOneByOne, type OneByOne } from './one-by-one.ts'

/** Whose turn it is. Namespaces come first: a tenant can have many service accounts, but not many namespaces. */
export interface Owner {
  readonly namespace: string
  readonly username: string
}

/**
 * Lets admission requests be handled one at a time: the next one is of the namespace that was served least recently,
 * and there of the user who was served least recently. A user who sends many expensive requests delays other users by
 * one of them, not by all. A request that is late when the next one is chosen is dropped: its caller has been answered.
 */
export type Turns = OneByOne<Owner>

/** Owners whose last turn is remembered: more than there are requests in progress. */
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
