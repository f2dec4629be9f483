import type { Readable, Writable } from 'node:stream'

/** Standard input and output as bytes, for sessions with a guest. */
export interface Terminal {
  /** Whether keys are typed on it. */
  readonly isInteractive: boolean
  /** Whether each key is delivered at once and unchanged, including ^C. Off again when the program ends. */
  setRaw(isRaw: boolean): void
  /** Calls `onInput` until the returned function is called. */
  read(onInput: (chunk: Buffer) => void): () => void
  /** Pending until the reader of the output can take more. */
  write(chunk: Uint8Array): Promise<void> | undefined
}

interface Streams {
  readonly input: Readable & { readonly isTTY?: boolean; setRawMode?(isRaw: boolean): unknown }
  readonly output: Writable
  /** Registers what runs when the program ends in any way but SIGKILL. */
  readonly onExit: (run: () => void) => void
}

export function createTerminal({ input, output, onExit }: Streams): Terminal {
  let isRestored = false
  const setRaw = (isRaw: boolean) => {
    if (input.isTTY !== true) return
    input.setRawMode?.(isRaw)
    if (isRestored) return
    isRestored = true
    onExit(() => input.setRawMode?.(false))
  }
  return {
    isInteractive: input.isTTY === true,
    setRaw,
    read(onInput) {
      input.on('data', onInput)
      input.resume()
      return () => {
        input.off('data', onInput)
        // Otherwise the program would wait for more input.
        input.pause()
      }
    },
    write(chunk) {
      if (output.write(chunk)) return undefined
      return new Promise((resolve) => output.once('drain', resolve))
    },
  }
}
