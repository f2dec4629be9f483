import { mkdir, stat, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { Usage, codeOf, fileFailure } from './failure.ts'
import type { Streams, World } from './world.ts'

/** The destination of results: standard output, or one file per result in a directory. */
export interface Output {
  /** `extension` without the dot. */
  readonly result: (stem: string, extension: string, text: string) => Promise<void>
  /** Writes a file beside the result; does nothing for standard output. */
  readonly beside: (stem: string, what: string, value: unknown) => Promise<void>
}

/** Prints results; separates YAML documents by `---`, as kubectl expects. */
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

/** @throws Usage if the directory cannot be created */
export async function filed(directory: string): Promise<Output> {
  await makeDirectory(directory).catch((error: unknown) => {
    throw fileFailure(directory, 'written', error)
  })
  const written = new Set<string>()
  const writeOnce = async (stem: string, rest: string, text: string): Promise<void> => {
    const file = join(directory, `${fileNameOf(stem)}.${rest}`)
    // `a.warnings.json` is the result of an input `a.warnings` as well as the warnings of `a`.
    if (written.has(file)) throw new Usage(`${file}: another input has written this file; rename one of the two`)
    written.add(file)
    await write(file, text)
  }
  return {
    result: writeOnce,
    beside: (stem, what, value) => writeOnce(stem, `${what}.json`, `${JSON.stringify(value, null, 2)}\n`),
  }
}

/**
 * A stem may contain the name of an unvalidated object, such as `../x`. Escapes it so that the file stays in its
 * directory.
 */
// oxlint-disable-next-line no-control-regex -- control characters are what it is about
const fileNameOf = (stem: string): string => stem.replaceAll(/[/\u0000-\u001f\u007f]/g, encodeURIComponent)

/**
 * Creates a directory and its parents, if they do not exist. Node's own `recursive` never returns if a directory exists
 * but reports ENOENT for every new name, as /proc does.
 */
async function makeDirectory(directory: string, hasParents = dirname(directory) === directory): Promise<void> {
  await mkdir(directory).catch(async (error: unknown) => {
    if (await isDirectory(directory)) return
    if (hasParents || codeOf(error) !== 'ENOENT') throw error
    await makeDirectory(dirname(directory))
    await makeDirectory(directory, true)
  })
}

const isDirectory = (path: string): Promise<boolean> =>
  stat(path).then(
    (found) => found.isDirectory(),
    () => false,
  )

/** @throws Usage if the file cannot be written */
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
/** Faster updates are unreadable. */
const intervalMs = 100

type ProgressWorld = Pick<World, 'err' | 'escape' | 'isErrTerminal' | 'now'>

/** A progress line for long runs; only on a terminal, and only after two seconds. */
export function progress({ err, escape, isErrTerminal, now }: ProgressWorld): Progress {
  let shownMs = now() + quietMs - intervalMs
  let count = 0
  let isShown = false
  /** To the first column, then clears the line. */
  const clear = `${escape}[G${escape}[K`
  return {
    step(word) {
      count++
      if (!isErrTerminal || now() - shownMs < intervalMs) return
      shownMs = now()
      isShown = true
      err(`${clear}${count} done, ${word}`)
    },
    end() {
      if (isShown) err(clear)
    },
  }
}
