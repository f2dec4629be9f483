import { Duplex, type Readable, type Writable } from 'node:stream'

/**
 * One stream of an input and an output. Unlike that of `Duplex.from`, it finishes when the last byte is written,
 * because standard output never closes.
 */
export function joined(input: Readable, output: Writable): Duplex {
  const both = new Duplex({
    read: () => void input.resume(),
    write: (chunk, _, done) => void output.write(chunk, done),
    // An input that stays open would keep the process alive.
    destroy: (error, done) => {
      input.destroy()
      done(error)
    },
  })
  input.on('data', (chunk) => both.push(chunk) || input.pause())
  input.on('end', () => both.push(null))
  input.on('error', (error) => both.destroy(error))
  return both
}
