import { isDeepStrictEqual } from 'node:util'
import { LRUCache } from 'lru-cache'
import { isRecord } from '../../api/schema.ts'
import type { Clock } from '../../runtime/clock.ts'

/** The VMs that this process has just completed. Their validating requests need not complete them again. */
export interface CompletedVms {
  add(namespace: string, vm: unknown): void
  /**
   * Whether labels, annotations and spec equal those of a cached VM. The API server may have generated a name from
   * generateName in the meantime.
   */
  has(namespace: string, vm: unknown): boolean
}

/**
 * The two requests are usually milliseconds apart; another webhook in between may use its default timeout of ten
 * seconds.
 */
const freshMs = 15_000
/** Room for about 500 VMs of usual size. */
const defaultMaxCharacters = 8 * 1024 * 1024

/**
 * Keyed by the UUID that every completed VM has. Values are JSON text, which is compact, has a known size, and costs
 * less than a digest.
 */
export function createCompletedVms(clock: Clock, maxCharacters = defaultMaxCharacters): CompletedVms {
  const completed = new LRUCache<string, string>({
    maxSize: maxCharacters,
    sizeCalculation: (text) => text.length,
    ttl: freshMs,
    ttlResolution: 0,
    perf: { now: () => clock.monotonic() },
  })
  return {
    add(namespace, vm) {
      const parts = partsOf(vm)
      completed.set(`${namespace} ${uuidOf(parts)}`, JSON.stringify(parts))
    },
    has(namespace, vm) {
      const parts = partsOf(vm)
      const text = completed.get(`${namespace} ${uuidOf(parts)}`)
      if (text === undefined) return false
      const cached: Parts = JSON.parse(text)
      return isDeepStrictEqual(definedOf(cached.name === undefined ? { ...parts, name: undefined } : parts), cached)
    },
  }
}

interface Parts {
  readonly name?: unknown
  readonly labels?: unknown
  readonly annotations?: unknown
  readonly spec?: unknown
}

function partsOf(vm: unknown): Parts {
  const { metadata, spec } = isRecord(vm) ? vm : {}
  const { name, labels, annotations } = isRecord(metadata) ? metadata : {}
  return { name, labels, annotations, spec }
}

/** Without the members that JSON omits. */
const definedOf = (parts: Parts): Parts =>
  Object.fromEntries(Object.entries(parts).filter(([, value]) => value !== undefined))

function uuidOf({ spec }: Parts): string {
  const domain = isRecord(spec) ? spec['domain'] : undefined
  return isRecord(domain) ? String(domain['uuid']) : ''
}
