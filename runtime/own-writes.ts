import { systemClock } from './clock.ts'
import type { Clock } from './clock.ts'
import { isOlderVersion, keyOf } from './resource.ts'
import type { KubeObject, Persisted } from './resource.ts'

/**
 * The objects that this process has written and its watch has not delivered yet. The watch lags by milliseconds; a
 * decision based on a version before the process's own write would repeat that write and conflict.
 */
interface OwnWrites<T extends KubeObject> {
  /** Remembers the API server's response to a write. */
  note(written: Persisted<T>): void
  /** The newer of the cached and the remembered object; forgets the latter once the cache has caught up. */
  newest(cached: Persisted<T>): Persisted<T>
  forget(ref: { readonly namespace?: string; readonly name: string }): void
  readonly size: number
}

/** A write that the watch has not delivered by then is lost: etcd was restored from a backup. */
const longestLagMs = 30_000

export function createOwnWrites<T extends KubeObject>(clock: Pick<Clock, 'monotonic'> = systemClock): OwnWrites<T> {
  const noted = new Map<string, { readonly written: Persisted<T>; readonly atMs: number }>()

  const isPending = (own: Persisted<T>, cached: Persisted<T>, atMs: number): boolean =>
    own.metadata.uid === cached.metadata.uid &&
    isOlderVersion(cached.metadata.resourceVersion, own.metadata.resourceVersion) &&
    clock.monotonic() - atMs < longestLagMs

  /** The cache may never have the object again: it was deleted before the response to the write arrived. */
  const forgetLost = () => {
    for (const [key, { atMs }] of noted) {
      if (clock.monotonic() - atMs < longestLagMs) return
      noted.delete(key)
    }
  }

  return {
    note(written) {
      forgetLost()
      const key = keyOf(written.metadata)
      // The oldest stays first.
      noted.delete(key)
      noted.set(key, { written, atMs: clock.monotonic() })
    },
    newest(cached) {
      const key = keyOf(cached.metadata)
      const own = noted.get(key)
      if (own && isPending(own.written, cached, own.atMs)) return own.written
      noted.delete(key)
      return cached
    },
    forget: (ref) => void noted.delete(keyOf(ref)),
    get size() {
      return noted.size
    },
  }
}
