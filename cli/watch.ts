import { statSync, watch, type FSWatcher } from 'node:fs'
import { basename, dirname, join } from 'node:path'
import { isManifestName } from './input.ts'

/** Editors write a file in several steps. */
const settleMs = 50

/**
 * The paths of files that have changed, for ever: those given, and the manifests of folders. What changes while the caller is busy is told afterwards, several changes as
 * one. A file is watched by its folder, since many editors put another file in its place. Standard input is not watched; where there is nothing to watch, nothing comes.
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

/** Nothing where not even the folder is there: that is told by who reads it. */
function watchOne(path: string, notice: (path: string) => void): FSWatcher[] {
  const isFolder = statSync(path, { throwIfNoEntry: false })?.isDirectory() === true
  const folder = isFolder ? path : dirname(path)
  if (statSync(folder, { throwIfNoEntry: false }) === undefined) return []
  const isWanted = (name: string): boolean => (isFolder ? isManifestName(name) : name === basename(path))
  const watcher = watch(folder, { recursive: isFolder }, (_, name) => {
    if (name !== null && isWanted(name)) notice(join(folder, name))
  })
  // A folder that goes is told by who reads it.
  watcher.on('error', () => notice(path))
  return [watcher]
}
