import type { VirtualMachine } from '../api/machine.ts'
import { isRecord } from '../api/schema.ts'
import type { Clock } from '../runtime/clock.ts'
import { createMemory } from './memory.ts'

/** What this process has just completed, so that the validating review of the very same need not complete it again. */
export interface Recall {
  keep(namespace: string, machine: unknown): void
  /** One that shares nearly all of it with others, which is put together only where it is asked for. */
  keepAlike(namespace: string, uuid: string, machine: () => VirtualMachine): void
  /** Whether labels, annotations and spec are, to the letter, what was kept a moment ago; a name may have come since. */
  has(namespace: string, machine: unknown): boolean
}

/** Between both reviews of one request lie milliseconds; a webhook of somebody else in between has ten seconds at most by default. */
const freshMs = 15_000
/** Of text that is kept: some 500 VMs of a usual size. */
const defaultMaxCharacters = 8 * 1024 * 1024
/** What a VM takes that shares nearly all with others, in characters of text. */
const charactersOfAlike = 8192

interface Kept {
  readonly parts: () => Parts
  readonly characters: number
  readonly keptMs: number
}

/** By the UUID that every completed VM has. What is kept is text: small, exact to bound, and cheaper to make than a digest. */
export function createRecall(clock: Clock, maxCharacters = defaultMaxCharacters): Recall {
  const kept = createMemory<Kept>(maxCharacters, ({ characters }) => characters)
  const put = (key: string, parts: () => Parts, characters: number) =>
    kept.set(key, { parts, characters, keptMs: clock.monotonic() })
  return {
    keep(namespace, machine) {
      const parts = partsOf(machine)
      const text = JSON.stringify(parts)
      put(`${namespace} ${uuidOf(parts)}`, () => JSON.parse(text), text.length)
    },
    keepAlike: (namespace, uuid, machine) => put(`${namespace} ${uuid}`, () => partsOf(machine()), charactersOfAlike),
    has(namespace, machine) {
      const asked = partsOf(machine)
      const found = kept.get(`${namespace} ${uuidOf(asked)}`)
      if (found === undefined || clock.monotonic() - found.keptMs >= freshMs) return false
      const parts = found.parts()
      return isSame({ ...asked, ...(parts.name === undefined ? { name: undefined } : {}) }, parts)
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

function uuidOf({ spec }: Parts): string {
  const domain = isRecord(spec) ? spec['domain'] : undefined
  return isRecord(domain) ? String(domain['uuid']) : ''
}

/** The same JSON, in whatever order its keys are; what is undefined is not there. */
function isSame(left: unknown, right: unknown): boolean {
  if (left === right) return true
  if (Array.isArray(left)) {
    return Array.isArray(right) && left.length === right.length && left.every((item, at) => isSame(item, right[at]))
  }
  if (!isRecord(left) || !isRecord(right)) return false
  const keys = definedKeys(left)
  return (
    keys.length === definedKeys(right).length &&
    keys.every((key) => Object.hasOwn(right, key) && isSame(left[key], right[key]))
  )
}

const definedKeys = (record: { readonly [key: string]: unknown }): string[] =>
  Object.keys(record).filter((key) => record[key] !== undefined)
