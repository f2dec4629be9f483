import type { KubeObject, Persisted } from '../../runtime/resource.ts'

/** Places for the objects of each namespace. */
export interface Places {
  /** Whether the object has a place, or takes a free one. */
  take(object: Persisted<KubeObject>): boolean
  /** Frees the place of an object that is gone. */
  leave(object: Persisted<KubeObject>): void
}

/**
 * @param most places of a namespace, which the first objects take that come: of a list, those with the first names. One
 *   without a place takes a free one when it comes again.
 */
export function createPlaces(most: number): Places {
  const taken = new Map<string, Set<string>>()
  return {
    take({ metadata: { namespace = '', uid } }) {
      const own = taken.get(namespace) ?? new Set()
      if (!own.has(uid) && own.size >= most) return false
      taken.set(namespace, own.add(uid))
      return true
    },
    leave({ metadata: { namespace = '', uid } }) {
      const own = taken.get(namespace)
      own?.delete(uid)
      if (own?.size === 0) taken.delete(namespace)
    },
  }
}
