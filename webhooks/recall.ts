import { createHash } from 'node:crypto'
import { isRecord } from '../api/schema.ts'
import type { Clock } from '../runtime/clock.ts'

/** What this process has just completed, so that the validating review of the very same need not complete it again. */
export interface Recall {
  keep(namespace: string, machine: unknown): void
  /** Whether labels, annotations and spec are, to the letter, what was kept a moment ago. */
  has(namespace: string, machine: unknown): boolean
}

/** Between both reviews of one request lie milliseconds; a webhook of somebody else in between has ten seconds at most by default. */
const freshMs = 15_000
const maxKept = 512

export function createRecall(clock: Clock): Recall {
  const kept = new Map<string, number>()
  return {
    keep(namespace, machine) {
      kept.set(digest(namespace, machine), clock.monotonic())
      const [oldest] = kept.keys()
      if (kept.size > maxKept && oldest !== undefined) kept.delete(oldest)
    },
    has(namespace, machine) {
      const keptMs = kept.get(digest(namespace, machine))
      return keptMs !== undefined && clock.monotonic() - keptMs < freshMs
    },
  }
}

function digest(namespace: string, machine: unknown): string {
  const { metadata, spec } = isRecord(machine) ? machine : {}
  const { name, labels, annotations } = isRecord(metadata) ? metadata : {}
  const text = [namespace, name, labels, annotations, spec].map(canonicalText).join()
  return createHash('sha256').update(text).digest('base64')
}

/** JSON with its keys in order, as the API server writes them; what is undefined is left out. */
function canonicalText(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(canonicalText).join()}]`
  if (!isRecord(value)) return JSON.stringify(value) ?? 'null'
  let text = ''
  for (const key of inOrder(Object.keys(value))) {
    if (value[key] !== undefined) text += `${JSON.stringify(key)}:${canonicalText(value[key])},`
  }
  return `{${text}}`
}

/** Of what the API server sends, keys are in order already. */
const inOrder = (keys: string[]): string[] =>
  keys.every((key, index) => index === 0 || (keys[index - 1] ?? '') < key) ? keys : keys.toSorted()
