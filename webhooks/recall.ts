import { isRecord } from '../api/schema.ts'
import type { Clock } from '../runtime/clock.ts'

/** What this process has just completed, so that the validating review of the very same need not complete it again. */
export interface Recall {
  keep(namespace: string, machine: unknown): void
  /** Whether labels, annotations and spec are, to the letter, what was kept a moment ago; a name may have come since. */
  has(namespace: string, machine: unknown): boolean
}

/** Between both reviews of one request lie milliseconds; a webhook of somebody else in between has ten seconds at most by default. */
const freshMs = 15_000
/** Of text that is kept: some 500 VMs of a usual size. */
const defaultMaxCharacters = 8 * 1024 * 1024

interface Kept {
  readonly text: string
  readonly keptMs: number
}

/** By the UUID that every completed VM has. What is kept is text: small, exact to bound, and cheaper to make than a digest. */
export function createRecall(clock: Clock, maxCharacters = defaultMaxCharacters): Recall {
  const kept = new Map<string, Kept>()
  let characters = 0
  const drop = (key: string) => {
    characters -= kept.get(key)?.text.length ?? 0
    kept.delete(key)
  }
  return {
    keep(namespace, machine) {
      const key = keyOf(namespace, machine)
      const text = JSON.stringify(partsOf(machine))
      drop(key)
      kept.set(key, { text, keptMs: clock.monotonic() })
      characters += text.length
      for (const oldest of kept.keys()) {
        if (characters <= maxCharacters) return
        drop(oldest)
      }
    },
    has(namespace, machine) {
      const found = kept.get(keyOf(namespace, machine))
      if (found === undefined || clock.monotonic() - found.keptMs >= freshMs) return false
      const parts: { readonly name?: unknown } = JSON.parse(found.text)
      return isSame({ ...partsOf(machine), ...(parts.name === undefined ? { name: undefined } : {}) }, parts)
    },
  }
}

function partsOf(machine: unknown) {
  const { metadata, spec } = isRecord(machine) ? machine : {}
  const { name, labels, annotations } = isRecord(metadata) ? metadata : {}
  return { name, labels, annotations, spec }
}

function keyOf(namespace: string, machine: unknown): string {
  const { spec } = partsOf(machine)
  const domain = isRecord(spec) ? spec['domain'] : undefined
  return `${namespace} ${isRecord(domain) ? String(domain['uuid']) : ''}`
}

/** The same JSON, in whatever order its keys are; what is undefined is not there. */
function isSame(left: unknown, right: unknown): boolean {
  if (left === right) return true
  if (Array.isArray(left)) {
    return Array.isArray(right) && left.length === right.length && left.every((item, at) => isSame(item, right[at]))
  }
  if (!isRecord(left) || !isRecord(right)) return false
  return (
    Object.keys(left).every((key) => isSame(left[key], Object.hasOwn(right, key) ? right[key] : undefined)) &&
    Object.keys(right).every((key) => right[key] === undefined || Object.hasOwn(left, key))
  )
}
