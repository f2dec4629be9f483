import fs from 'node:fs/promises'
import { syncBuiltinESMExports } from 'node:module'
import { onTestFinished } from 'vitest'

/** Until the test ends, nothing can be looked at: each `lstat` fails with this code. */
export function failLooks(code: string): void {
  const { lstat } = fs
  const use = (look: typeof lstat) => {
    Object.assign(fs, { lstat: look })
    syncBuiltinESMExports()
  }
  onTestFinished(() => use(lstat))
  use((() => Promise.reject(Object.assign(new Error(code), { code }))) as typeof lstat)
}
