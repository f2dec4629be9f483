import type { Clock } from '../runtime/clock.ts'
import type { Reflector } from '../runtime/reflector.ts'
import { isOlderVersion, keyOf, type KubeObject, type Persisted } from '../runtime/resource.ts'

/** A watch that was interrupted continues within 5 s. A write that it has not delivered by then may be lost. */
const longestMs = 10_000

/**
 * Tells when the watch has delivered a write. The API server decodes the objects of a kind one after the other for its
 * watches: behind writes that it has accepted, but not delivered, the events of all others wait.
 */
export function createDelivery<T extends KubeObject>(vms: Reflector<T>, clock: Pick<Clock, 'after'>) {
  const checks = new Set<() => void>()
  vms.onChange(() => {
    for (const check of checks) check()
  })
  /** Calls `then` once the cache has what was written or is newer, or has it no more; after 10 s at the latest. */
  return (written: Persisted<T>, then: () => void): void => {
    const { uid, resourceVersion } = written.metadata
    const isDelivered = () => {
      const cached = vms.store.get(keyOf(written.metadata))?.metadata
      return cached?.uid !== uid || !isOlderVersion(cached.resourceVersion, resourceVersion)
    }
    const end = () => {
      checks.delete(check)
      cancel()
      then()
    }
    const check = () => {
      if (isDelivered()) end()
    }
    const cancel = clock.after(longestMs, end)
    checks.add(check)
    check()
  }
}
