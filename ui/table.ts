import type { Metadata, WatchEvent } from './api.ts'

/** A response of the API server in the form that kubectl prints. */
export interface Table {
  readonly metadata?: { readonly resourceVersion?: string; readonly continue?: string }
  readonly columnDefinitions?: readonly { readonly name: string; readonly priority: number }[] | null
  readonly rows?: readonly { readonly cells: readonly unknown[]; readonly object: { readonly metadata: Metadata } }[]
}

/** One object; without its annotations, which take most of the memory. */
export interface Row {
  readonly uid: string
  readonly namespace: string
  readonly name: string
  readonly created: string
  readonly isDeleted: boolean
  readonly labels: string
  readonly cells: readonly string[]
}

export const rowsOf = ({ rows = [] }: Table): Row[] =>
  rows.map(({ cells, object: { metadata } }) => ({
    uid: metadata.uid,
    namespace: metadata.namespace ?? '',
    name: metadata.name,
    created: metadata.creationTimestamp ?? '',
    isDeleted: metadata.deletionTimestamp !== undefined,
    labels: Object.entries(metadata.labels ?? {})
      .map(([key, value]) => `${key}=${value}`)
      .join(' '),
    cells: cells.map(textOf),
  }))

const textOf = (cell: unknown): string =>
  typeof cell === 'string' || typeof cell === 'number' || typeof cell === 'boolean' ? String(cell) : ''

/** The rows by UID after some events. */
export function applied(rows: ReadonlyMap<string, Row>, events: readonly WatchEvent[]): ReadonlyMap<string, Row> {
  const after = new Map(rows)
  for (const { type, object } of events) {
    if (type === 'BOOKMARK' || type === 'ERROR') continue
    for (const row of rowsOf(object as Table)) {
      if (type === 'DELETED') after.delete(row.uid)
      else after.set(row.uid, row)
    }
  }
  return after
}

export interface Filter {
  readonly text: string
  /** Empty for all. */
  readonly namespace: string
  /** The value of a column; empty for all. */
  readonly cells: ReadonlyMap<number, string>
}

/** The rows that a filter selects, by namespace and name. Each word of the text is in the name, a label or a cell. */
export function selected(rows: Iterable<Row>, { text, namespace, cells }: Filter): Row[] {
  const words = text.toLowerCase().split(/\s+/).filter(Boolean)
  const has = (row: Row): boolean => {
    if (namespace !== '' && row.namespace !== namespace) return false
    for (const [index, value] of cells) if (value !== '' && row.cells[index] !== value) return false
    if (words.length === 0) return true
    const all = `${row.namespace}/${row.name} ${row.labels} ${row.cells.join(' ')}`.toLowerCase()
    return words.every((word) => all.includes(word))
  }
  return [...rows].filter(has).toSorted((a, b) => compare(a.namespace, b.namespace) || compare(a.name, b.name))
}

const compare = (a: string, b: string): number => (a < b ? -1 : Number(a > b))

/** As kubectl prints it: `45s`, `12m`, `3h`, `8d`. */
export function ageText(created: string, nowMs: number): string {
  const seconds = Math.max(0, Math.round((nowMs - new Date(created).getTime()) / 1000))
  if (seconds < 120) return `${seconds}s`
  if (seconds < 7200) return `${Math.floor(seconds / 60)}m`
  return seconds < 172_800 ? `${Math.floor(seconds / 3600)}h` : `${Math.floor(seconds / 86_400)}d`
}

/** As the browser's user writes it. */
export const localTime = (time: string | undefined): string | undefined =>
  time === undefined ? undefined : new Date(time).toLocaleString(undefined, { dateStyle: 'medium', timeStyle: 'short' })
