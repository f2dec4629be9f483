import { mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'

/** Where results go: printed one after the other, or a file each in a folder. */
export interface Output {
  /** `extension` without the dot. */
  readonly result: (stem: string, extension: string, text: string) => Promise<void>
  /** What stands beside a result; only where results are files. */
  readonly beside: (stem: string, what: string, value: unknown) => Promise<void>
}

export interface Streams {
  readonly out: (text: string) => void
  readonly err: (text: string) => void
}

/** Printed: YAML documents are parted by `---`, as kubectl reads them again. */
export function printed({ out }: Streams): Output {
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

export async function filed(folder: string): Promise<Output> {
  await mkdir(folder, { recursive: true })
  return {
    result: (stem, extension, text) => writeFile(join(folder, `${stem}.${extension}`), text),
    beside: (stem, what, value) =>
      writeFile(join(folder, `${stem}.${what}.json`), `${JSON.stringify(value, null, 2)}\n`),
  }
}

/** A line that says how far a long run is; only on a terminal, and only after two seconds. */
export function progress(
  streams: Streams,
  isTerminal: boolean,
  now: () => number,
): { step: (word: string) => void; end: () => void } {
  const startedMs = now()
  let count = 0
  let isShown = false
  return {
    step(word) {
      count++
      if (!isTerminal || now() - startedMs < 2000) return
      isShown = true
      streams.err(`\r\u001B[K${count} done, ${word}`)
    },
    end() {
      if (isShown) streams.err('\r\u001B[K')
    },
  }
}
