import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, expect, test } from 'vitest'

import { attempt, CommandFailed, lastLines, run } from './command.ts'

const directory = mkdtempSync(join(tmpdir(), 'command-'))
afterAll(() => rmSync(directory, { recursive: true }))

test('what a command says is given back, and all of it is in the log', async () => {
  const log = join(directory, 'log')
  expect(await run(['sh', '-c', 'echo out; echo err >&2'], { log })).toBe('out\n')
  expect(readFileSync(log, 'utf8').split('\n').sort()).toEqual(['', '$ sh -c echo out; echo err >&2', 'err', 'out'])
})

test('input reaches the command, and a command that ignores it is no failure', async () => {
  expect(await run(['cat'], { input: 'hello' })).toBe('hello')
  expect(await run(['true'], { input: 'x'.repeat(1_000_000) })).toBe('')
})

test('a failure names the command, the status and the last words', async () => {
  const failure = run(['sh', '-c', 'echo sorry >&2; exit 3'])
  await expect(failure).rejects.toThrow(CommandFailed)
  await expect(failure).rejects.toThrow('sh -c echo sorry >&2; exit 3: ended with status 3\nsorry')
})

test('a program that is not there is a failed command', async () => {
  await expect(run(['/no/such/program'])).rejects.toThrow(CommandFailed)
  expect(await attempt(['/no/such/program'])).toBeUndefined()
})

test('a command that takes too long is ended', async () => {
  await expect(run(['sleep', '60'], { timeoutMs: 20 })).rejects.toThrow('was ended by SIGKILL')
})

test('the end of a text is its last lines', () => {
  expect(lastLines('a\nb\nc\n\n', 2)).toBe('b\nc')
})
