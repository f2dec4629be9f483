/** A map that is created on first access. */
export function lazyMap<K, V>(make: () => ReadonlyMap<K, V>): ReadonlyMap<K, V> {
  let made: ReadonlyMap<K, V> | undefined
  const map = (): ReadonlyMap<K, V> => (made ??= make())
  return {
    get size() {
      return map().size
    },
    get: (key) => map().get(key),
    has: (key) => map().has(key),
    keys: () => map().keys(),
    values: () => map().values(),
    entries: () => map().entries(),
    forEach: (visit) => map().forEach(visit),
    [Symbol.iterator]: () => map()[Symbol.iterator](),
  }
}
