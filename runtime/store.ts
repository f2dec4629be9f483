import { deepFreeze } from '../api/deep-freeze.ts'
import { keyOf } from './resource.ts'
import type { KubeObject, Persisted } from './resource.ts'

/**
 * A change of an object. Its replacement by another object of the same name is a deletion and an addition. A deletion
 * that was observed has the last state of the object; one that a new list showed has an earlier state.
 */
export type Change<T extends KubeObject> =
  | { readonly kind: 'added'; readonly object: Persisted<T> }
  | { readonly kind: 'updated'; readonly object: Persisted<T>; readonly previous: Persisted<T> }
  | { readonly kind: 'deleted'; readonly object: Persisted<T>; readonly isObserved?: true }

/** The values of an index under which an object is found. */
export type Indexers<T extends KubeObject, Index extends string> = Readonly<
  Record<Index, (object: Persisted<T>) => readonly string[]>
>

/** A cache of the API server's objects. Objects and lists are frozen, so callers can hold on to them. */
export interface Store<T extends KubeObject, Index extends string = never> {
  /** `key` is `NAMESPACE/NAME`, or `NAME` for a cluster-scoped kind. */
  get(key: string): Persisted<T> | undefined
  /** The same array until something changes. */
  list(): readonly Persisted<T>[]
  byIndex(index: Index, value: string): readonly Persisted<T>[]
  /** The first of them that `isWanted` accepts. Looks at no other after it. */
  findByIndex(index: Index, value: string, isWanted: (object: Persisted<T>) => boolean): Persisted<T> | undefined
  readonly size: number
}

interface WritableStore<T extends KubeObject, Index extends string = never> extends Store<T, Index> {
  /** Adds or replaces the object. */
  put(object: Persisted<T>): Change<T>[]
  /** Removes the object with this uid, not another of its name. */
  remove(object: Persisted<T>): Change<T>[]
  /** Replaces all objects. */
  replace(objects: readonly Persisted<T>[]): Change<T>[]
}

const nothing: readonly never[] = Object.freeze([])

export function createStore<T extends KubeObject, Index extends string = never>(
  indexers?: Indexers<T, Index>,
): WritableStore<T, Index> {
  const objects = new Map<string, Persisted<T>>()
  const indices = new Map<string, Map<string, Map<string, Persisted<T>>>>()
  let listed: readonly Persisted<T>[] | undefined

  const eachValue = (
    object: Persisted<T>,
    visit: (index: Map<string, Map<string, Persisted<T>>>, value: string) => void,
  ) => {
    if (!indexers) return
    for (const name in indexers) {
      const index = indices.get(name) ?? new Map<string, Map<string, Persisted<T>>>()
      indices.set(name, index)
      for (const value of indexers[name](object)) visit(index, value)
    }
  }

  const insert = (key: string, object: Persisted<T>) => {
    objects.set(key, object)
    listed = undefined
    eachValue(object, (index, value) => {
      const found = index.get(value) ?? new Map<string, Persisted<T>>()
      index.set(value, found.set(key, object))
    })
  }

  const erase = (key: string, object: Persisted<T>) => {
    objects.delete(key)
    listed = undefined
    eachValue(object, (index, value) => {
      const found = index.get(value)
      found?.delete(key)
      if (found?.size === 0) index.delete(value)
    })
  }

  const put = (given: Persisted<T>): Change<T>[] => {
    const key = keyOf(given.metadata)
    const previous = objects.get(key)
    if (previous?.metadata.uid === given.metadata.uid) {
      if (previous.metadata.resourceVersion === given.metadata.resourceVersion) return []
      const object = deepFreeze(given)
      erase(key, previous)
      insert(key, object)
      return [{ kind: 'updated', object, previous }]
    }
    const object = deepFreeze(given)
    if (previous) erase(key, previous)
    insert(key, object)
    return [...(previous ? [{ kind: 'deleted' as const, object: previous }] : []), { kind: 'added', object }]
  }

  const remove = (object: Persisted<T>): Change<T>[] => {
    const key = keyOf(object.metadata)
    const previous = objects.get(key)
    if (previous?.metadata.uid !== object.metadata.uid) return []
    erase(key, previous)
    return [{ kind: 'deleted', object: deepFreeze(object), isObserved: true }]
  }

  return {
    get: (key) => objects.get(key),
    list: () => (listed ??= Object.freeze([...objects.values()])),
    byIndex(index, value) {
      const found = indices.get(index)?.get(value)
      return found ? [...found.values()] : nothing
    },
    findByIndex(index, value, isWanted) {
      for (const object of indices.get(index)?.get(value)?.values() ?? []) if (isWanted(object)) return object
      return undefined
    },
    get size() {
      return objects.size
    },
    put,
    remove,
    replace(all) {
      const current = new Set(all.map((object) => keyOf(object.metadata)))
      const gone = [...objects].filter(([key]) => !current.has(key))
      for (const [key, object] of gone) erase(key, object)
      return [...gone.map(([, object]) => ({ kind: 'deleted' as const, object })), ...all.flatMap(put)]
    },
  }
}
