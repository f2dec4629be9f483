import type { Document } from 'yaml'
import type { Cause } from '../api/cause.ts'
import { pathKeys } from '../api/path.ts'
import { renderCause } from '../api/refusal.ts'
import { isRecord, nestingCauses } from '../api/schema.ts'
import { parseDocuments } from '../api/yaml.ts'
import type { Manifest } from '../inventory/manifests.ts'

/** What is wrong with a text, at a line that counts from 1. */
export interface Problem {
  readonly line: number
  readonly severity: 'error' | 'warning'
  /** Empty for the whole object. */
  readonly field: string
  readonly message: string
}

/** A manifest as the user types it. */
export interface PageText {
  readonly object: Manifest
  readonly problemsOf: (causes: readonly Cause[]) => readonly Problem[]
}

export const warning = (message: string): Problem => ({ line: 1, severity: 'warning', field: '', message })
const error = (line: number, message: string): Problem => ({ line, severity: 'error', field: '', message })

/** The one object of a text in YAML or JSON, or why there is none. */
export function readText(text: string): PageText | { readonly problems: readonly Problem[] } {
  const read = parseDocuments(text)
  if ('problem' in read) {
    const [, line = '1', message = read.problem] = /^(\d+):\d+: (.*)$/s.exec(read.problem) ?? []
    return { problems: [error(Number(line), message)] }
  }
  const [first, ...others] = read.documents.filter(({ value }) => value !== null && value !== undefined)
  if (first === undefined) return { problems: [error(1, 'the text is empty')] }
  if (others.length > 0) return { problems: [error(1, 'the text has several documents; write one object')] }
  const { document, value } = first
  if (!isRecord(value) || typeof value['kind'] !== 'string') {
    return { problems: [error(1, 'the text is not a Kubernetes object: it has no `kind`')] }
  }
  const problemsOf = (causes: readonly Cause[]) =>
    causes.map((cause): Problem => ({
      line: lineOf(document, text, cause.field),
      severity: 'error',
      field: cause.field,
      message: renderCause(cause),
    }))
  const deep = nestingCauses(value, '')
  return deep.length > 0 ? { problems: problemsOf(deep) } : { object: value, problemsOf }
}

/** The line of a field, or of what is nearest above it if the field is absent. */
function lineOf(document: Document, text: string, field: string): number {
  let node: unknown = document.contents
  let offset = rangeOf(node)
  for (const key of pathKeys(field)) {
    const found = childOf(node, key)
    if (found === undefined) break
    offset = found.offset
    node = found.node
  }
  return text.slice(0, offset).split('\n').length
}

interface Child {
  readonly node: unknown
  /** The offset of the key, or of the item of a list. */
  readonly offset: number
}

function childOf(node: unknown, key: string | number): Child | undefined {
  if (typeof node !== 'object' || node === null || !('items' in node) || !Array.isArray(node.items)) return undefined
  if (typeof key === 'number') {
    const item: unknown = node.items[key]
    return item === undefined ? undefined : { node: item, offset: rangeOf(item) }
  }
  for (const pair of node.items) {
    if (String(pair.key?.value ?? pair.key) === key) return { node: pair.value, offset: rangeOf(pair.key) }
  }
  return undefined
}

function rangeOf(node: unknown): number {
  const range: unknown = typeof node === 'object' && node !== null && 'range' in node ? node.range : undefined
  return Array.isArray(range) && typeof range[0] === 'number' ? range[0] : 0
}
