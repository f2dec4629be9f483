import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, expect, test } from 'vitest'

import { attempt, CommandFailed, lastLines, run } from './command.ts'

const directory = mkdtempSync(join(tmpdir(), 'command-'))
afterAll(() => rmSync(directory, { recursive: true }))

test('returns standard output, and logs all output', async () => {
  const log = join(directory, 'log')
  expect(await run(['sh', '-c', 'echo out; echo err >&2'], { log })).toBe('out\n')
  expect(readFileSync(log, 'utf8').split('\n').sort()).toEqual(['', '$ sh -c echo out; echo err >&2', 'err', 'out'])
})

test('passes input to the command, and a command that ignores it does not fail', async () => {
  expect(await run(['cat'], { input: 'hello' })).toBe('hello')
  expect(await run(['true'], { input: 'x'.repeat(1_000_000) })).toBe('')
})

test('a failure names the command, the status and the end of the output', async () => {
  const failure = run(['sh', '-c', 'echo sorry >&2; exit 3'])
  await expect(failure).rejects.toThrow(CommandFailed)
  await expect(failure).rejects.toThrow('sh -c echo sorry >&2; exit 3: ended with status 3\nsorry')
})

test('fails for a program that does not exist', async () => {
  await expect(run(['/no/such/program'])).rejects.toThrow(CommandFailed)
  expect(await attempt(['/no/such/program'])).toBeUndefined()
})

test('kills a command that exceeds the timeout', async () => {
  await expect(run(['sleep', '60'], { timeoutMs: 20 })).rejects.toThrow('was ended by SIGKILL')
})

test('lastLines returns the last lines of a text', () => {
  expect(lastLines('a\nb\nc\n\n', 2)).toBe('b\nc')
})
