/** Things that were worked out, of which the ones that nobody asked for lately go. */
export interface Memory<T> {
  get(key: string): T | undefined
  set(key: string, value: T): void
}

/**
 * Two generations: what is asked for comes into the younger, and once that is full the older is forgotten whole. A map that drops its oldest
 * entry for each new one walks over the gaps of all that it dropped before.
 *
 * @param sizeOf what an entry takes of `maxSize`; 1 where absent
 */
export function createMemory<T>(maxSize: number, sizeOf: (value: T) => number = () => 1): Memory<T> {
  let young = new Map<string, T>()
  let old = new Map<string, T>()
  let size = 0
  const set = (key: string, value: T): void => {
    size += sizeOf(value)
    if (size > maxSize / 2) {
      old = young
      young = new Map()
      size = sizeOf(value)
    }
    young.set(key, value)
  }
  return {
    set,
    get(key) {
      const found = young.get(key)
      if (found !== undefined) return found
      const again = old.get(key)
      if (again !== undefined) set(key, again)
      return again
    },
  }
}
