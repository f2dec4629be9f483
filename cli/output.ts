import { mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { fileFailure } from './failure.ts'
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
  await mkdir(folder, { recursive: true }).catch((error: unknown) => {
    throw fileFailure(folder, 'written', error)
  })
  return {
    result: (stem, extension, text) => write(join(folder, `${stem}.${extension}`), text),
    beside: (stem, what, value) => write(join(folder, `${stem}.${what}.json`), `${JSON.stringify(value, null, 2)}\n`),
  }
}

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
