import { useEffect, useState } from 'preact/hooks'
import { request } from './api.ts'
import { pluralOf } from './kinds.ts'
import type { JsonSchema } from './suggest.ts'

const known = new Map<string, Promise<JsonSchema>>()

/** The schema of the kind that a text states; undefined for an unknown kind, and until it has been read. */
export function useSchema(text: string): JsonSchema | undefined {
  const [schema, setSchema] = useState<JsonSchema>()
  const kind = /^kind: *(\w+) *$/m.exec(text)?.[1] ?? ''
  useEffect(() => {
    let isStopped = false
    setSchema(undefined)
    if (pluralOf(kind) === undefined) return
    const reading = known.get(kind) ?? request('GET', `/schema?kind=${kind}`).then((answer) => answer as JsonSchema)
    known.set(kind, reading)
    reading.then(
      (found) => !isStopped && setSchema(found),
      () => known.delete(kind),
    )
    return () => {
      isStopped = true
    }
  }, [kind])
  return schema
}
