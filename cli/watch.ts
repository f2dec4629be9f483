import { watch } from 'node:fs/promises'

/** Editors write a file in several steps. */
const settleMs = 50

/** The path of these under which something changed first. A path that is gone for the moment, or standard input, is not watched. */
export async function nextChange(paths: readonly string[]): Promise<string | undefined> {
  const ended = new AbortController()
  const watches = paths.filter((path) => path !== '-').map((path) => firstEvent(path, ended.signal))
  try {
    const path = await Promise.any(watches).catch(() => undefined)
    if (path !== undefined) await new Promise((resolve) => setTimeout(resolve, settleMs))
    return path
  } finally {
    ended.abort()
  }
}

async function firstEvent(path: string, signal: AbortSignal): Promise<string> {
  for await (const _ of watch(path, { signal, recursive: true })) return path
  throw new Error(`${path} is not watched any more`)
}
