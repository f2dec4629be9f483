import { keyOf } from './resource.ts'
import type { KubeObject, Persisted } from './resource.ts'

/**
 * What this process wrote and its watch has not brought back yet. The watch lags by milliseconds; to decide from an object older than one's own
 * write is to write it again, in vain.
 */
export interface OwnWrites<T extends KubeObject> {
  /** What the API server answered to a write. */
  note(written: Persisted<T>): void
  /** The newer of the cached object and what was noted; forgets the note once the cache has caught up. */
  newest(cached: Persisted<T>): Persisted<T>
  forget(ref: { readonly namespace?: string; readonly name: string }): void
  readonly size: number
}

export function createOwnWrites<T extends KubeObject>(): OwnWrites<T> {
  const noted = new Map<string, Persisted<T>>()
  return {
    note: (written) => void noted.set(keyOf(written.metadata), written),
    newest(cached) {
      const key = keyOf(cached.metadata)
      const own = noted.get(key)
      if (own && own.metadata.uid === cached.metadata.uid && isNewer(own, cached)) return own
      noted.delete(key)
      return cached
    },
    forget: (ref) => void noted.delete(keyOf(ref)),
    get size() {
      return noted.size
    },
  }
}

/** Versions of one kind are decimal numbers that grow: Kubernetes 1.35 says so, and etcd has always had it. */
function isNewer<T extends KubeObject>(a: Persisted<T>, b: Persisted<T>): boolean {
  return BigInt(a.metadata.resourceVersion) > BigInt(b.metadata.resourceVersion)
}
