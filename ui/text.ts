import { useEffect, useState } from 'preact/hooks'
import { request } from './api.ts'
import type { TextProblem } from './editor.ts'
import { textOf } from './failure.ts'

/** What the local server answers about a text. */
export interface Read {
  readonly problems: readonly TextProblem[]
  /** Absent if the text is refused. */
  readonly object?: Manifest
}

/** An object of Kubernetes as it is edited. */
export interface Manifest {
  readonly kind: string
  readonly metadata: {
    readonly name?: string
    readonly namespace?: string
    readonly labels?: { readonly [key: string]: string }
    readonly annotations?: { readonly [key: string]: string }
  }
  readonly spec: unknown
}

const textType = 'application/yaml'
/** After the last key. */
const settleMs = 400

/** Sends a text to the local server. */
export const readBy = (path: string, text: string): Promise<unknown> =>
  request('POST', path, { body: text, type: textType })

/** What the local server answers about a text when it no longer changes. `of` is the text that was read. */
export function useRead<T extends Read>(path: string, text: string): { readonly of: string; readonly read?: T } {
  const [known, setKnown] = useState<{ readonly of: string; readonly read?: T }>({ of: '' })
  useEffect(() => {
    let isStopped = false
    const timer = setTimeout(() => {
      readBy(path, text).then(
        (read) => !isStopped && setKnown({ of: text, read: read as T }),
        (error: unknown) => {
          const problems: readonly TextProblem[] = [{ line: 1, severity: 'error', field: '', message: textOf(error) }]
          if (!isStopped) setKnown((before) => ({ ...before, of: text, read: { ...before.read, problems } as T }))
        },
      )
    }, settleMs)
    return () => {
      isStopped = true
      clearTimeout(timer)
    }
  }, [path, text])
  return known
}
