/** An object that records which of its members were read. */
export function unread(object: object): { readonly object: object; readonly reads: readonly string[] } {
  const reads: string[] = []
  const recording = new Proxy(object, {
    get(target, key, receiver): unknown {
      reads.push(String(key))
      return Reflect.get(target, key, receiver)
    },
    ownKeys(target) {
      reads.push('keys')
      return Reflect.ownKeys(target)
    },
    getOwnPropertyDescriptor(target, key) {
      reads.push(String(key))
      return Reflect.getOwnPropertyDescriptor(target, key)
    },
  })
  return { object: recording, reads }
}
