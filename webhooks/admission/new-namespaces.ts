import { LRUCache } from 'lru-cache'
import type { Namespace } from '../../presets/candidates.ts'
import { ApiUnreachable } from '../../runtime/api-error.ts'
import { sleep, type Clock } from '../../runtime/clock.ts'

/**
 * Namespaces that the watch has not reported yet. Presets select namespaces by their labels, so the first VM of a
 * namespace must not be completed before these are known.
 */
export interface NewNamespaces {
  /** The namespace as it was read; undefined if it was not. */
  get(name: string): Namespace | undefined
  /**
   * Resolves once the namespace is known; undefined if it is. Requests for one namespace share the reads.
   * @throws ApiUnreachable (rejects) if it cannot be read in time
   */
  wait(name: string): Promise<void> | undefined
}

/** Before each further read. Together shorter than the timeout of the API server's call. */
const pausesMs = [50, 150, 400, 900]
/** The watch reports a namespace within milliseconds. After a longer time, its labels may have changed. */
const freshMs = 10_000
const maxNamespaces = 256

/**
 * @param isCached whether the watch has reported a namespace
 * @param read returns undefined if the namespace does not exist
 */
export function createNewNamespaces(
  isCached: (name: string) => boolean,
  read: (name: string) => Promise<Namespace | undefined>,
  clock: Clock,
): NewNamespaces {
  const found = new LRUCache<string, Namespace>({
    max: maxNamespaces,
    ttl: freshMs,
    ttlResolution: 0,
    perf: { now: () => clock.monotonic() },
  })
  const pending = new Map<string, Promise<void>>()
  const isKnown = (name: string) => isCached(name) || found.has(name)

  const tryRead = async (name: string): Promise<void> => {
    const namespace = await read(name).catch(() => undefined)
    if (namespace !== undefined) found.set(name, namespace)
  }

  const find = async (name: string): Promise<void> => {
    await tryRead(name)
    for (const pauseMs of pausesMs) {
      if (isKnown(name)) return
      await sleep(clock, pauseMs)
      if (!isCached(name)) await tryRead(name)
    }
    if (!isKnown(name)) throw new ApiUnreachable(`the namespace ${name} could not be read`)
  }

  return {
    get: (name) => found.get(name),
    wait(name) {
      if (isKnown(name)) return undefined
      const reading = pending.get(name) ?? find(name).finally(() => pending.delete(name))
      pending.set(name, reading)
      return reading
    },
  }
}
