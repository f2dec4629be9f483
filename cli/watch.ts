import { statSync, watch, type FSWatcher } from 'node:fs'
import { basename, dirname, join } from 'node:path'
import { isManifestName } from './input.ts'

/** Editors write a file in several steps. */
const settleMs = 50

/**
 * Yields the paths of changed files indefinitely: given files, and manifests in given directories. Changes while the
 * consumer is busy are yielded together afterwards. A file is watched through its directory, because many editors
 * replace the file. Standard input is not watched; with nothing to watch, nothing is yielded.
 */
export function watchChanges(paths: readonly string[]): AsyncIterable<string> {
  const changed = new Set<string>()
  let wake = (): void => {}
  const notice = (path: string): void => {
    changed.add(path)
    wake()
  }
  const watchers = paths.filter((path) => path !== '-').flatMap((path) => watchOne(path, notice))
  return (async function* () {
    try {
      while (watchers.length > 0) {
        if (changed.size === 0) await new Promise<void>((resolve) => (wake = resolve))
        await new Promise((resolve) => setTimeout(resolve, settleMs))
        const all = [...changed]
        changed.clear()
        yield all.join(', ')
      }
    } finally {
      for (const watcher of watchers) watcher.close()
    }
  })()
}

/** No watcher if the directory does not exist; reading it reports that. */
function watchOne(path: string, notice: (path: string) => void): FSWatcher[] {
  const isDirectory = statSync(path, { throwIfNoEntry: false })?.isDirectory() === true
  const directory = isDirectory ? path : dirname(path)
  if (statSync(directory, { throwIfNoEntry: false }) === undefined) return []
  const isWatched = (name: string): boolean => (isDirectory ? isManifestName(name) : name === basename(path))
  const watcher = watch(directory, { recursive: isDirectory }, (_, name) => {
    if (name !== null && isWatched(name)) notice(join(directory, name))
  })
  // A deleted directory is reported by reading it.
  watcher.on('error', () => notice(path))
  return [watcher]
}
