import { useEffect, useState } from 'preact/hooks'
import { collectionPath, request, watch, type WatchEvent } from './api.ts'
import type { Cluster } from './cluster.ts'
import { Refused, textOf } from './failure.ts'
import { isNamespaced, type Plural } from './kinds.ts'
import { applied, rowsOf, type Row, type Table } from './table.ts'

export interface Rows {
  readonly columns: readonly string[]
  readonly rows: ReadonlyMap<string, Row>
  readonly state: 'loading' | 'live' | 'waiting'
  readonly error: string
  /** Defined if only this namespace can be listed, or is to be. */
  readonly namespace: string | undefined
}

const accept = 'application/json;as=Table;v=v1;g=meta.k8s.io'
const pageSize = 1000
const retryMs = 2000
/** Events are shown together, because thousands can arrive in a second. */
const gatherMs = 100

/** The objects of a kind, live. Users who cannot list those of all namespaces see those of their context. */
export function useRows(plural: Plural, { namespace, isNamespaceChosen }: Cluster): Rows {
  const first: Rows = {
    columns: [],
    rows: new Map(),
    state: 'loading',
    error: '',
    namespace: isNamespaceChosen && isNamespaced(plural) ? namespace : undefined,
  }
  const [found, setFound] = useState(first)
  useEffect(() => {
    let isStopped = false
    let stopWatch = () => {}
    let timer: ReturnType<typeof setTimeout> | undefined
    let waiting: WatchEvent[] = []
    let flushing: ReturnType<typeof setTimeout> | undefined
    let scope = first.namespace
    const again = (error: string) => {
      if (isStopped) return
      setFound((now) => ({ ...now, state: 'waiting', error }))
      timer = setTimeout(() => void run(), retryMs)
    }
    const flush = () => {
      flushing = undefined
      const events = waiting
      waiting = []
      setFound((now) => ({ ...now, rows: applied(now.rows, events) }))
    }
    const run = async () => {
      try {
        const { columns, rows, version } = await listAll(plural, scope, (part) => {
          // What is shown already is more recent than a part of it.
          if (!isStopped) setFound((now) => (now.state === 'loading' ? { ...now, ...part } : now))
        })
        if (isStopped) return
        setFound({ columns, rows, state: 'live', error: '', namespace: scope })
        const query = `watch=1&as=Table&allowWatchBookmarks=true&resourceVersion=${version}`
        stopWatch = watch(
          `${collectionPath(plural, scope)}?${query}`,
          (event) => {
            // The version is too old: list again.
            if (event.type === 'ERROR') {
              stopWatch()
              return again('')
            }
            waiting.push(event)
            flushing ??= setTimeout(flush, gatherMs)
          },
          (refused) => again(refused?.message ?? ''),
        )
      } catch (error) {
        if (error instanceof Refused && error.status === 403 && scope === undefined && isNamespaced(plural)) {
          scope = namespace
          return run()
        }
        again(textOf(error))
      }
    }
    void run()
    return () => {
      isStopped = true
      stopWatch()
      clearTimeout(timer)
      clearTimeout(flushing)
    }
  }, [plural])
  return found
}

type Part = Pick<Rows, 'columns' | 'rows'>

/** @param onPart called with what has arrived, of a list that takes several requests */
async function listAll(plural: Plural, namespace: string | undefined, onPart: (part: Part) => void) {
  const rows = new Map<string, Row>()
  let columns: readonly string[] = []
  let [next, version] = ['', '']
  do {
    const query = `limit=${pageSize}${next === '' ? '' : `&continue=${encodeURIComponent(next)}`}`
    const table = (await request('GET', `${collectionPath(plural, namespace)}?${query}`, { accept })) as Table
    for (const row of rowsOf(table)) rows.set(row.uid, row)
    columns = table.columnDefinitions?.map(({ name }) => name) ?? columns
    next = table.metadata?.continue ?? ''
    version = table.metadata?.resourceVersion ?? ''
    if (next !== '') onPart({ columns, rows: new Map(rows) })
  } while (next !== '')
  return { columns, rows, version }
}
