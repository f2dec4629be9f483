import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, afterEach, expect, test } from 'vitest'

import {
  ensureProcess,
  isAlive,
  isZombie,
  parseStartTime,
  readRecord,
  recordedNames,
  stopProcess,
  untilSettled,
} from './process.ts'

const directory = mkdtempSync(join(tmpdir(), 'process-'))
const directories = { records: join(directory, 'records'), logs: join(directory, 'logs') }
afterEach(() => stopProcess(directories, 'sleeper'))
afterAll(() => rmSync(directory, { recursive: true }))
const sleeper = { name: 'sleeper', command: ['sleep', '600'] }

const stat = (name: string, state = 'S', threads = 1) =>
  `42 (${name}) ${state} 1 42 42 0 -1 4194560 1 0 0 0 0 0 0 0 20 0 ${threads} 0 987654 5 1 184 4 1 1 0`

test.each(['sleep', 'two words', 'a) b (c'])('parses the start time after the name "%s"', (name) => {
  expect(parseStartTime(stat(name))).toBe('987654')
})

test('distinguishes a zombie from a running process', () => {
  expect([isZombie(stat('a')), isZombie(stat('a', 'Z'))]).toEqual([false, true])
})

test('a process whose main thread has ended before the others still runs', () => {
  expect(isZombie(stat('a', 'Z', 3))).toBe(false)
})

test('starts a daemon once', async () => {
  expect(await ensureProcess(directories, sleeper)).toBe('started')
  const first = readRecord(directories, 'sleeper')
  expect(await ensureProcess(directories, sleeper)).toBe('running')
  expect(readRecord(directories, 'sleeper')).toEqual(first)
  expect(recordedNames(directories)).toEqual(['sleeper'])
})

test.each([
  ['command', { command: ['sleep', '601'] }],
  ['environment', { environment: { A: 'b' } }],
  ['input', { inputs: ['new configuration'] }],
])('restarts a daemon with another %s', async (_, change) => {
  await ensureProcess(directories, sleeper)
  const first = readRecord(directories, 'sleeper')!
  expect(await ensureProcess(directories, { ...sleeper, ...change })).toBe('started')
  expect(isAlive(first)).toBe(false)
})

test('starts a killed daemon again', async () => {
  await ensureProcess(directories, sleeper)
  const first = readRecord(directories, 'sleeper')!
  process.kill(first.pid, 'SIGKILL')
  await expect.poll(() => isAlive(first)).toBe(false)
  expect(await ensureProcess(directories, sleeper)).toBe('started')
})

test('a record of another boot or another process with the same PID is not alive, and nothing is killed', async () => {
  await ensureProcess(directories, sleeper)
  const record = readRecord(directories, 'sleeper')!
  expect(isAlive({ ...record, bootId: 'another' })).toBe(false)
  expect(isAlive({ ...record, startTime: '1' })).toBe(false)
  expect(isAlive(record)).toBe(true)
})

test('stop ends the process and removes its record', async () => {
  await ensureProcess(directories, sleeper)
  const record = readRecord(directories, 'sleeper')!
  await stopProcess(directories, 'sleeper')
  expect(isAlive(record)).toBe(false)
  expect(recordedNames(directories)).toEqual([])
  await stopProcess(directories, 'sleeper')
})

test('logs the output, and fails for a program that does not exist', async () => {
  await ensureProcess(directories, { name: 'sleeper', command: ['sh', '-c', 'echo hello; exec sleep 600'] })
  await expect.poll(() => readFileSync(join(directories.logs, 'sleeper.log'), 'utf8')).toBe('hello\n')
  await expect(ensureProcess(directories, { name: 'x', command: ['/no/such'] })).rejects.toThrow(
    '/no/such does not start',
  )
})

test('a process that ends at once has not settled; one that keeps running has', async () => {
  await ensureProcess(directories, { name: 'sleeper', command: ['false'] })
  await expect(untilSettled(directories, 'sleeper')).rejects.toThrow(
    `sleeper has ended: ${directories.logs}/sleeper.log`,
  )
  await ensureProcess(directories, sleeper)
  await untilSettled(directories, 'sleeper')
})
