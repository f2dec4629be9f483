import { useState } from 'preact/hooks'

/** A text that the browser remembers for this page; its port differs the next time, unless `--port` is used. */
export function useStored(key: string, initial: string): [string, (value: string) => void] {
  const [value, setValue] = useState(localStorage.getItem(key) ?? initial)
  return [
    value,
    (next) => {
      localStorage.setItem(key, next)
      setValue(next)
    },
  ]
}
