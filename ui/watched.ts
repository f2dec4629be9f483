import { useEffect, useState } from 'preact/hooks'
import { request, watch, type Metadata } from './api.ts'
import { Refused, textOf } from './failure.ts'

const retryMs = 2000
/** A missing permission is rarely granted while one looks. */
const retryForbiddenMs = 30_000

export interface Watched<T> {
  readonly objects: readonly T[]
  readonly isLoaded: boolean
  readonly error: string
}

interface List<T> {
  readonly metadata: { readonly resourceVersion: string }
  readonly items: readonly T[]
}

/** The objects that a query selects, live. @param path with a query */
export function useWatched<T extends { readonly metadata: Metadata }>(path: string): Watched<T> {
  const [found, setFound] = useState<Watched<T>>({ objects: [], isLoaded: false, error: '' })
  useEffect(() => {
    let isStopped = false
    let stopWatch = () => {}
    let timer: ReturnType<typeof setTimeout> | undefined
    const again = (error: unknown) => {
      if (isStopped) return
      const isForbidden = error instanceof Refused && error.status === 403
      setFound((now) => ({ ...now, error: error === undefined ? '' : textOf(error) }))
      timer = setTimeout(() => void run(), isForbidden ? retryForbiddenMs : retryMs)
    }
    const run = async () => {
      try {
        const { metadata, items } = (await request('GET', path)) as List<T>
        if (isStopped) return
        setFound({ objects: items, isLoaded: true, error: '' })
        stopWatch = watch(
          `${path}&watch=1&resourceVersion=${metadata.resourceVersion}`,
          ({ type, object }) => {
            // The version is too old; the server ends the watch after this.
            if (type === 'ERROR') return
            const one = object as T
            setFound((now) => {
              const rest = now.objects.filter(({ metadata: { uid } }) => uid !== one.metadata.uid)
              return { ...now, objects: type === 'DELETED' ? rest : [...rest, one] }
            })
          },
          again,
        )
      } catch (error) {
        again(error)
      }
    }
    void run()
    return () => {
      isStopped = true
      stopWatch()
      clearTimeout(timer)
    }
  }, [path])
  return found
}
