import { isDeepStrictEqual } from 'node:util'
import { LRUCache } from 'lru-cache'
import { isRecord } from '../api/schema.ts'
import type { Clock } from '../runtime/clock.ts'

/** The VMs that this process completed a moment ago, so that the validating request for the same VM need not complete it again. */
export interface Recall {
  keep(namespace: string, machine: unknown): void
  /** Whether labels, annotations and spec equal those of a VM that was kept; generateName may have become a name since. */
  has(namespace: string, machine: unknown): boolean
}

/** Milliseconds pass between the two requests; another webhook in between may take its default timeout of ten seconds. */
const freshMs = 15_000
/** Room for some 500 VMs of usual size. */
const defaultMaxCharacters = 8 * 1024 * 1024

/** Keyed by the UUID that every completed VM has. It keeps JSON text: that is small, its size is known, and it is cheaper to make than a digest. */
export function createRecall(clock: Clock, maxCharacters = defaultMaxCharacters): Recall {
  const completed = new LRUCache<string, string>({
    maxSize: maxCharacters,
    sizeCalculation: (text) => text.length,
    ttl: freshMs,
    ttlResolution: 0,
    perf: { now: () => clock.monotonic() },
  })
  return {
    keep(namespace, machine) {
      const parts = partsOf(machine)
      completed.set(`${namespace} ${uuidOf(parts)}`, JSON.stringify(parts))
    },
    has(namespace, machine) {
      const parts = partsOf(machine)
      const text = completed.get(`${namespace} ${uuidOf(parts)}`)
      if (text === undefined) return false
      const kept: Parts = JSON.parse(text)
      return isDeepStrictEqual(definedOf(kept.name === undefined ? { ...parts, name: undefined } : parts), kept)
    },
  }
}

interface Parts {
  readonly name?: unknown
  readonly labels?: unknown
  readonly annotations?: unknown
  readonly spec?: unknown
}

function partsOf(machine: unknown): Parts {
  const { metadata, spec } = isRecord(machine) ? machine : {}
  const { name, labels, annotations } = isRecord(metadata) ? metadata : {}
  return { name, labels, annotations, spec }
}

/** Without the members that JSON would leave out. */
const definedOf = (parts: Parts): Parts =>
  Object.fromEntries(Object.entries(parts).filter(([, value]) => value !== undefined))

function uuidOf({ spec }: Parts): string {
  const domain = isRecord(spec) ? spec['domain'] : undefined
  return isRecord(domain) ? String(domain['uuid']) : ''
}
