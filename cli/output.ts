import { mkdir, stat, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { codeOf, fileFailure } from './failure.ts'
import type { Streams } from './world.ts'

/** Where results go: printed one after the other, or a file each in a folder. */
export interface Output {
  /** `extension` without the dot. */
  readonly result: (stem: string, extension: string, text: string) => Promise<void>
  /** What stands beside a result; only where results are files. */
  readonly beside: (stem: string, what: string, value: unknown) => Promise<void>
}

/** Printed: YAML documents are parted by `---`, as kubectl reads them again. */
export function printed({ out }: Pick<Streams, 'out'>): Output {
  let isFirst = true
  return {
    result: (_, extension, text) => {
      out(extension === 'yaml' && !isFirst ? `---\n${text}` : text)
      isFirst = false
      return Promise.resolve()
    },
    beside: () => Promise.resolve(),
  }
}

/** @throws Usage where the folder cannot be made */
export async function filed(folder: string): Promise<Output> {
  await makeFolder(folder).catch((error: unknown) => {
    throw fileFailure(folder, 'written', error)
  })
  return {
    result: (stem, extension, text) => write(join(folder, `${stem}.${extension}`), text),
    beside: (stem, what, value) => write(join(folder, `${stem}.${what}.json`), `${JSON.stringify(value, null, 2)}\n`),
  }
}

/**
 * A folder with those above it; one that is there is fine. Node's own `recursive` never comes back where a folder is there and yet says of each new
 * name that it is not, as /proc does.
 */
async function makeFolder(folder: string, hasParents = dirname(folder) === folder): Promise<void> {
  await mkdir(folder).catch(async (error: unknown) => {
    if (await isFolder(folder)) return
    if (hasParents || codeOf(error) !== 'ENOENT') throw error
    await makeFolder(dirname(folder))
    await makeFolder(folder, true)
  })
}

const isFolder = (path: string): Promise<boolean> =>
  stat(path).then(
    (found) => found.isDirectory(),
    () => false,
  )

/** @throws Usage where that is not possible */
export async function write(file: string, text: string): Promise<void> {
  await writeFile(file, text).catch((error: unknown) => {
    throw fileFailure(file, 'written', error)
  })
}

export interface Progress {
  readonly step: (word: string) => void
  readonly end: () => void
}

const quietMs = 2000
/** More often nobody reads it. */
const intervalMs = 100

/** A line that says how far a long run is; only on a terminal, and only after two seconds. */
export function progress({ err }: Pick<Streams, 'err'>, isTerminal: boolean, now: () => number): Progress {
  let shownMs = now() + quietMs - intervalMs
  let count = 0
  let isShown = false
  return {
    step(word) {
      count++
      if (!isTerminal || now() - shownMs < intervalMs) return
      shownMs = now()
      isShown = true
      err(`\r\u001B[K${count} done, ${word}`)
    },
    end() {
      if (isShown) err('\r\u001B[K')
    },
  }
}
