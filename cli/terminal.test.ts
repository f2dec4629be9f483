import { PassThrough } from 'node:stream'
import { expect, test } from 'vitest'
import { createTerminal } from './terminal.ts'

function start(isTTY: boolean) {
  const modes: boolean[] = []
  const exits: (() => void)[] = []
  const input = Object.assign(new PassThrough(), { isTTY, setRawMode: (isRaw: boolean) => modes.push(isRaw) })
  const output = new PassThrough({ highWaterMark: 4 })
  const terminal = createTerminal({ input, output, onExit: (run) => exits.push(run) })
  return { modes, exits, input, output, terminal }
}

test('the mode of a terminal is restored when the program ends in the raw mode', () => {
  const { modes, exits, terminal } = start(true)
  terminal.setRaw(true)
  terminal.setRaw(false)
  terminal.setRaw(true)
  expect([modes, exits.length]).toEqual([[true, false, true], 1])
  exits[0]?.()
  expect(modes.at(-1)).toBe(false)
})

test('a pipe has no mode', () => {
  const { modes, terminal } = start(false)
  terminal.setRaw(true)
  expect([terminal.isInteractive, modes]).toEqual([false, []])
})

test('input that is no longer read stops the stream, so that the program can end', () => {
  const { input, terminal } = start(true)
  const read: string[] = []
  const stop = terminal.read((chunk) => read.push(chunk.toString()))
  input.write('a')
  stop()
  input.write('b')
  expect([read, input.isPaused()]).toEqual([['a'], true])
})

test('a write waits for a slow reader', async () => {
  const { output, terminal } = start(true)
  expect(terminal.write(Buffer.from('ab'))).toBeUndefined()
  const waiting = terminal.write(Buffer.from('cdef'))
  expect(waiting).toBeInstanceOf(Promise)
  output.resume()
  await waiting
})
