import { createHash } from 'node:crypto'
import { readdirSync, readFileSync, statSync } from 'node:fs'
import { join } from 'node:path'

/**
 * A key of content: equal parts have equal keys on every host. It has 12 hexadecimal digits, which is short enough for
 * an image tag; with 48 bits, collisions are unlikely.
 */
export function keyOf(...parts: readonly (string | Buffer)[]): string {
  const hash = createHash('sha256')
  for (const part of parts) hash.update(`${part.length}\n`).update(part)
  return hash.digest('hex').slice(0, 12)
}

/**
 * The key of files below a directory. It covers their names, contents and whether they are executable, but not their
 * times.
 */
export function keyOfFiles(directory: string, files: readonly string[]): string {
  return keyOf(
    ...[...files].sort().flatMap((file) => {
      const isExecutable = (statSync(join(directory, file)).mode & 0o100) !== 0
      return [file, isExecutable ? 'x' : '-', readFileSync(join(directory, file))]
    }),
  )
}

/** The files below `directory/folder` for which `isWanted`, as paths relative to `directory`, sorted. */
export function filesBelow(directory: string, folder: string, isWanted: (path: string) => boolean): string[] {
  return readdirSync(join(directory, folder), { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name).slice(directory.length + 1))
    .filter(isWanted)
    .sort()
}
