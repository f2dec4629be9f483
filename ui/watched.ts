import { useEffect, useState } from 'preact/hooks'
import { request, textOf, watch, type Metadata } from './api.ts'

const retryMs = 2000

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
    const again = (error: string) => {
      if (isStopped) return
      setFound((now) => ({ ...now, error }))
      timer = setTimeout(() => void run(), retryMs)
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
          (refused) => again(refused?.message ?? ''),
        )
      } catch (error) {
        again(textOf(error))
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
